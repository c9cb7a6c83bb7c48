// The admin API, by addresses relative to this page: the gateway may be published under a path.

const ROOT = new URL("../", import.meta.url);

/** An answer that was not what was asked for. status: 0 when nobody answered. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const address = (path) => new URL(path, ROOT).href;

export const getStatus = () => ask("status");
export const getRows = async (limit) => (await ask(`requests?limit=${limit}`)).requests;
export const getRow = (id) => ask(`requests/${encodeURIComponent(id)}`);
export const getExplanation = (id) => ask(`requests/${encodeURIComponent(id)}/explain`);
export const getSession = () => ask("ui/session");
export const signIn = (token) => ask("ui/session", { method: "POST", body: JSON.stringify({ token }) });
export const signOut = () => ask("ui/session", { method: "DELETE" });

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(address(path), { cache: "no-store", ...options });
  } catch {
    throw new Refused(0, "The gateway does not answer.");
  }
  const value = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, value?.error?.message ?? `The gateway answered ${answer.status}.`);
  return value;
}
