// Each quantity: what was measured, and the capital of the bets in both directions.

import { make, meter, redraw } from './dom.js';
import { count, percent, say, short } from './words.js';

const LEVELS = ['divergence', 'disagreement'];

export function showEvidence(quantities) {
  redraw('evidence', quantities, () => Object.entries(quantities).map(([name, one]) => card(name, one)));
}

/** Nats are a number, all else is a share. */
export const amount = (name, value) => (name === 'divergence' ? short(value) : percent(value));

function card(name, one) {
  return make('article', { 'data-quantity': name },
    make('h3', {}, say(`of_${name}`)), make('p', { class: 'muted' }, measured(name, one)),
    ...bar(name, 'worse', one.worse, one.worse.than), ...bar(name, 'good', one.good, one.good.below));
}

function measured(name, one) {
  if (one.candidate === null) return say('not_measured');
  const words = { value: amount(name, one.candidate), n: count(one.n) };
  if (one.baseline === null) return say('measured', words);
  return say('measured_both', { ...words, other: amount(name, one.baseline), m: count(one.baseline_n) });
}

function bar(name, direction, { e_value, threshold, shown }, limit) {
  const words = LEVELS.includes(name) ? direction : `${direction}_rate`;
  const label = say(words, { limit: amount(name, limit) });
  const text = say('e_value', { now: short(e_value), threshold: short(threshold) });
  const part = shown ? 1 : Math.log(Math.max(e_value, 1)) / Math.log(threshold);
  const row = make('div', { class: 'meter-label', 'aria-hidden': 'true' }, make('span', {}, label), make('span', {}, text));
  return [row, meter(direction, `${say(`of_${name}`)}. ${label}`, part, e_value, threshold, text)];
}
