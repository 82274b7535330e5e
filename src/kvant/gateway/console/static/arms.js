// Who answers, and what guards the answers.

import { make, meter, redraw } from './dom.js';
import { percent, say, short } from './words.js';

export function showArms(arms, breaker, drift) {
  redraw('arms', arms, () => arms.map(card));
  redraw('guards', [breaker, drift], () => [
    make('dt', {}, say('breaker')), make('dd', breaker === 'closed' ? {} : { class: 'problem' }, say(breaker)),
    make('dt', {}, say('drift')), make('dd', drift.raised ? { class: 'problem' } : {}, driftOf(drift)),
  ]);
}

function card(arm) {
  const facts = [
    [say('replicas'), say('of', { now: arm.up, most: arm.replicas })],
    [say('inflight'), say('of', { now: arm.inflight, most: arm.slots })],
    [say('queue'), say('queues', arm.queue)],
    [say('kv'), percent(arm.kv)],
  ];
  const list = facts.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]);
  return make('article', { 'data-arm': arm.name },
    make('h3', {}, make('span', { class: `swatch ${arm.name}` }), say(arm.name)),
    make('dl', arm.up < arm.replicas ? { class: 'facts problem' } : { class: 'facts' }, ...list),
    meter('', say('kv'), arm.kv, arm.kv, 1, percent(arm.kv)));
}

function driftOf({ ratios, raised }) {
  const words = Object.entries(ratios).map(([name, ratio]) =>
    say('drift_ratio', { what: say(name), ratio: short(ratio) }));
  if (raised) words.unshift(say('drift_raised'));
  return words.join('; ') || say('drift_none');
}
