// Where the release stands, and what is missing to go on.

import { make, redraw, write } from './dom.js';
import { count, duration, percent, say } from './words.js';

export function showRelease(rollout) {
  write('phase', phaseOf(rollout));
  write('reason', rollout.reason);
  write('trouble', rollout.trouble);
  redraw('split', rollout.weight, split);
  redraw('needed', missing(rollout), ([next, items]) => (items.length ? list(next, items) : []));
}

/** In one sentence, as it is read aloud when it changes. */
export function phaseOf({ phase, weight, paused }) {
  const name = say(`phase_${phase}`);
  const words = [phase === 'idle' ? name : say('phase_at', { phase: name, weight: percent(weight) })];
  if (paused) words.push(say('paused'));
  return words.join(' · ');
}

/** The weight that is next, and [whether it is there, its sentence] of all that it takes. */
export function missing({ step, next_weight, dwelt, counts, quantities }) {
  if (step === null) return [0, []];
  const items = [
    [dwelt >= step.dwell, say('dwell', { now: duration(dwelt), least: duration(step.dwell) })],
    ...['compared', 'served'].map((name) => {
      const now = counts[name === 'served' ? 'served.candidate' : name].phase;
      return [now >= step[name], say(name, { now: count(now), least: count(step[name]) })];
    }),
    ...step.proof.map((name) => [quantities[name].good.shown, say('shown_good', { what: say(`of_${name}`) })]),
  ];
  return [next_weight, items];
}

function split(weight) {
  const part = make('i');
  part.style.width = `${100 * weight}%`;
  const legend = ['candidate', 'baseline'].map((name) =>
    make('span', {}, make('span', { class: `swatch ${name}` }),
      `${say(name)} ${percent(name === 'candidate' ? weight : 1 - weight)}`));
  return [make('div', { class: 'split', 'aria-hidden': 'true' }, part), make('p', { class: 'row muted' }, ...legend)];
}

function list(next, items) {
  const rows = items.map(([done, text]) => make('li', done ? { class: 'done' } : {}, text));
  return [make('h3', {}, say('needed', { weight: percent(next) })), make('ul', {}, ...rows)];
}
