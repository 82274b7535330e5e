// Requests on which the arms part; the gateway has them only where prompts may be kept.

import { make, redraw, write } from './dom.js';
import { ask } from './session.js';
import { duration, say } from './words.js';

let known = null;
let list = [];

/** `attempt` runs what may fail and shows why. */
export async function showExamples(found, attempt) {
  const state = !found.wanted ? 'examples_off' : found.count ? 'examples_some' : 'examples_none';
  write('examples_why', say(state));
  const now = `${found.count} ${found.newest}`;
  if (now !== known) {
    list = found.count ? await ask('data/examples') : [];
    known = now;
  }
  redraw('examples', list, () => list.map((one) => card(one, attempt)));
}

function card(one, attempt) {
  const title = say('example', { ago: duration(one.ago), n: one.position });
  const button = make('button', { type: 'button', 'aria-label': `${say('forget')}: ${title}` }, say('forget'));
  button.addEventListener('click', () => attempt(async () => {
    await ask(`data/examples/${encodeURIComponent(one.id)}`, 'DELETE');
    known = null;
  }));
  return make('article', { class: 'example' },
    make('h3', {}, title), ...text('prompt', one.prompt),
    make('div', { class: 'grid' }, ...['baseline', 'candidate'].map((arm) =>
      make('div', {}, ...text(arm, one.shared, make('b', {}, one[arm]))))),
    button);
}

function text(name, ...parts) {
  return [make('p', { class: 'muted' }, say(name)), make('pre', { dir: 'auto', tabindex: 0, 'aria-label': say(name) }, ...parts)];
}
