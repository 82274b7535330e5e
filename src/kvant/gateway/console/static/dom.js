// Elements from data: strings become text nodes and never markup.

const SVG = 'http://www.w3.org/2000/svg';

export const at = (id) => document.getElementById(id);

export const make = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** Changes the text only where it is another one, so that nothing is read aloud twice. */
export function write(id, text) {
  const node = at(id);
  if (node.textContent !== text) node.textContent = text;
}

const shown = new Map();

/** Builds the children of an element again, unless `value` is what it shows already. */
export function redraw(id, value, build) {
  const text = JSON.stringify([document.documentElement.lang, value]);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  at(id).replaceChildren(...build(value));
}

/** A bar of this part (0 to 1) of its length, for eyes and screen readers. */
export function meter(kind, label, part, now, most, text) {
  const fill = make('i');
  fill.style.width = `${100 * Math.min(Math.max(part, 0), 1)}%`;
  const reading = { 'aria-valuemin': 0, 'aria-valuemax': most, 'aria-valuenow': Math.min(now, most) };
  return make('div', { class: `meter ${kind}`, role: 'meter', 'aria-label': label, 'aria-valuetext': text, ...reading }, fill);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
