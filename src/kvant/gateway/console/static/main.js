// Asks the gateway once a second and shows what it says.

import { showArms } from './arms.js';
import { showCommands } from './commands.js';
import { at, write } from './dom.js';
import { showEvidence } from './evidence.js';
import { showExamples } from './examples.js';
import { showHistory } from './history.js';
import { showPlots } from './plots.js';
import { showRelease } from './release.js';
import { Refused, ask, key } from './session.js';
import { dress, say, switchLanguage } from './words.js';

const EVERY = 1000;
let data = null;
let timer = 0;
let turn = 0;

async function look() {
  const mine = (turn += 1);
  try {
    const found = await ask('data');
    // An answer that was overtaken would show the past.
    if (mine !== turn) return;
    data = found;
    await show();
    write('link', say('live'));
  } catch (error) {
    if (error instanceof Refused && error.byKey) return lock(error);
    write('link', error instanceof Refused ? error.message : say('lost'));
    if (!(error instanceof Refused || error instanceof TypeError || error.name === 'TimeoutError')) throw error;
  } finally {
    clearTimeout(timer);
    if (!document.hidden && at('lock').hidden) timer = setTimeout(look, EVERY);
  }
}

async function show() {
  at('lock').hidden = true;
  at('main').hidden = false;
  at('forget').hidden = !key.get();
  showRelease(data.rollout);
  showCommands(data.rollout, attempt);
  showEvidence(data.rollout.quantities);
  showPlots(data.recent, data.rollout.quantities);
  showArms(data.arms, data.breaker, data.drift);
  showHistory(data.rollout.history);
  await showExamples(data.examples, attempt);
}

/** Does something at the gateway, shows why where it refuses, and looks again. */
async function attempt(action) {
  try {
    await action();
    write('problem', '');
  } catch (error) {
    write('problem', error instanceof Refused ? error.message : say('lost'));
  }
  await look();
}

function lock(refusal) {
  write('refused', key.get() || refusal.status === 403 ? refusal.message : '');
  write('link', '');
  key.forget();
  at('main').hidden = at('forget').hidden = true;
  at('lock').hidden = false;
  at('key').focus();
}

at('lock').addEventListener('submit', (event) => {
  event.preventDefault();
  key.set(at('key').value.trim());
  at('key').value = '';
  look();
});
at('forget').addEventListener('click', () => {
  key.forget();
  look();
});
at('language').addEventListener('click', () => {
  switchLanguage();
  if (data && !at('main').hidden) show();
});
document.addEventListener('visibilitychange', () => document.hidden || look());

dress();
look();
