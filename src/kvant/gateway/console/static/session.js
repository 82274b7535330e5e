// What is asked of the gateway, with the key of this tab.

const KEY = 'kvant-key';

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** The gateway said no: `status`, and why in its own words. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
  get byKey() {
    return this.status === 401 || this.status === 403;
  }
}

/** The JSON answer, null for an empty one; paths are relative to the page's files. */
export async function ask(path, method = 'GET') {
  const headers = key.get() ? { authorization: `Bearer ${key.get()}` } : {};
  if (method !== 'GET') headers['content-type'] = 'application/json';
  const where = new URL(path, import.meta.url);
  const answer = await fetch(where, { method, headers, cache: 'no-store', signal: AbortSignal.timeout(10_000) });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  throw new Refused(answer.status, await why(answer));
}

async function why(answer) {
  try {
    const body = await answer.json();
    return body.detail ?? body.error.message;
  } catch {
    return `HTTP ${answer.status}`;
  }
}
