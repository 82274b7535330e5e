// Series of the last minutes as SVG lines.

import { draw, make, redraw } from './dom.js';
import { duration, say } from './words.js';
import { amount } from './evidence.js';

const WIDTH = 420, HEIGHT = 150, LEFT = 52, RIGHT = 8, TOP = 10, BOTTOM = 20;
const SPANS = [3, 15], GAP = 25;
const [MEAN, MEDIAN, HIGH] = [1, 2, 3];

export function showPlots(recent, quantities) {
  const oldest = Math.max(0, ...Object.values(recent).map(([first]) => first[0]));
  const minutes = SPANS.find((span) => oldest <= span * 60) ?? SPANS.at(-1);
  redraw('plots', [recent, quantities.divergence.worse.than, quantities.disagreement.worse.than], () => [
    ...['divergence', 'disagreement'].map((name) => {
      const format = (value) => (value ? amount(name, value) : '0');
      return figure(name, minutes, [['candidate', recent[name] ?? []]], MEAN, format, quantities[name].worse.than);
    }),
    ...['first_token', 'per_token'].map((name) => {
      const lines = ['baseline', 'candidate'].map((arm) => [arm, recent[`${name}.${arm}`] ?? []]);
      return figure(name, minutes, lines, MEDIAN, (value) => (value ? duration(value) : '0'), null);
    }),
  ]);
}

function figure(name, minutes, lines, middle, format, limit) {
  const values = lines.flatMap(([, points]) => points.flatMap((point) => [point[middle], point[HIGH]]));
  const top = ceiling(Math.max(...values, limit ?? 0, 1e-9));
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const x = (ago) => LEFT + (1 - ago / (minutes * 60)) * (WIDTH - LEFT - RIGHT);
  const parts = [...levels(top, y, values.length || limit ? format : () => ''), ...times(minutes, x)];
  if (limit !== null) parts.push(draw('line', { class: 'limit', x1: LEFT, x2: WIDTH - RIGHT, y1: y(limit), y2: y(limit) }));
  for (const [arm, points] of lines) {
    for (const [column, style] of [[HIGH, 'high'], [middle, 'middle']]) {
      parts.push(draw('path', { class: `${arm} ${style}`, d: path(points, column, x, y) }));
    }
  }
  const kind = say(middle === MEAN ? 'mean' : 'median');
  const label = `${say(name)}: ${lines.map(([arm, points]) => latest(arm, points, middle, format)).join('; ')}`;
  return make('figure', { 'data-plot': name },
    make('figcaption', {}, make('h3', {}, say(name)), legend(lines, kind, limit, format)),
    draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label }, ...parts));
}

function latest(arm, points, middle, format) {
  const last = points.at(-1);
  return say('latest', { line: say(arm), value: last ? format(last[middle]) : say('nothing') });
}

function legend(lines, kind, limit, format) {
  const words = lines.length > 1
    ? lines.map(([arm]) => make('span', {}, make('span', { class: `swatch ${arm}` }), say(arm))) : [];
  words.push(`— ${kind}`, `┄ ${say('high')}`);
  if (limit !== null) words.push(`╌ ${say('limit')} ${format(limit)}`);
  return make('p', { class: 'row muted' }, ...words.map((word) => make('span', {}, word)));
}

function levels(top, y, format) {
  return [0, top / 2, top].flatMap((value) => [
    draw('line', { class: 'grid-line', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
    draw('text', { x: LEFT - 5, y: y(value) + 3, 'text-anchor': 'end' }, format(value)),
  ]);
}

function times(minutes, x) {
  return [3, 2, 1, 0].map((third) => {
    const ago = (minutes / 3) * third;
    const text = third ? say('minutes', { n: `−${ago}` }) : say('now');
    const anchor = { 3: 'start', 0: 'end' }[third] ?? 'middle';
    return draw('text', { x: x(ago * 60), y: HEIGHT - 5, 'text-anchor': anchor }, text);
  });
}

/** Broken where nothing was measured for a while; a lone point is a dot. */
function path(points, column, x, y) {
  let before = Infinity;
  return points.map((point) => {
    const [ago] = point;
    const place = `${x(ago).toFixed(1)} ${y(point[column]).toFixed(1)}`;
    const step = before - ago > GAP ? `M${place}h0` : `L${place}`;
    before = ago;
    return step;
  }).join('');
}

/** 1, 2 or 5 times a power of ten, not below the value. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}
