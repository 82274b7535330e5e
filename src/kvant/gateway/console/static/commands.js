// The buttons, each asked about once more before it acts.

import { at, make, redraw, write } from './dom.js';
import { missing } from './release.js';
import { ask } from './session.js';
import { percent, say } from './words.js';

const NAMES = ['start', 'promote', 'pause', 'resume', 'rollback'];
const STYLES = { start: 'main', promote: 'main', rollback: 'danger' };
let rollout = null;

/** `attempt` runs what may fail and shows why. */
export function showCommands(found, attempt) {
  rollout = found;
  redraw('commands', NAMES.map((name) => possible(name)), () => NAMES.map((name) => button(name, attempt)));
}

function possible(name) {
  const { phase, paused } = rollout;
  const active = ['shadow', 'canary', 'full'].includes(phase);
  return {
    start: !active,
    promote: phase === 'shadow' || phase === 'canary',
    pause: active && !paused,
    resume: active && paused,
    rollback: active,
  }[name];
}

function button(name, attempt) {
  const node = make('button', { type: 'button', class: STYLES[name] ?? '', 'data-command': name }, say(name));
  node.disabled = !possible(name);
  node.addEventListener('click', async () => {
    if (await confirmed(name)) await attempt(() => ask(`../rollout/${name}`, 'POST'));
    // The button itself may be gone: what follows from it is announced there.
    at('phase').focus();
  });
  return node;
}

/** Whether the person says yes; Escape is no. */
function confirmed(name) {
  const dialog = at('confirm'), yes = at('confirm_yes'), no = at('confirm_no');
  write('confirm_title', say(name));
  write('confirm_text', question(name));
  yes.textContent = say(name);
  yes.className = STYLES[name] ?? '';
  dialog.returnValue = '';
  yes.onclick = () => dialog.close('yes');
  no.onclick = () => dialog.close();
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

function question(name) {
  if (name !== 'promote') return say(`ask_${name}`);
  const [next, items] = missing(rollout);
  const words = [say('ask_promote', { weight: percent(next) })];
  if (items.some(([done]) => !done)) words.push(say('ask_promote_missing'));
  return words.join(' ');
}
