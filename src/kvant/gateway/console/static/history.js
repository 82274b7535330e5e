// Every change of phase, the newest first.

import { make, redraw } from './dom.js';
import { phaseOf } from './release.js';
import { moment } from './words.js';

export function showHistory(history) {
  redraw('history', history, () => history.toReversed().map((entry) =>
    make('li', {},
      make('strong', {}, phaseOf({ ...entry, paused: false })),
      make('div', { class: 'muted' },
        make('time', { datetime: new Date(entry.at * 1000).toISOString() }, moment(entry.at)), ` · ${entry.who}`),
      make('div', { lang: 'en' }, entry.why))));
}
