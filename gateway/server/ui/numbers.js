// What rows come to. Pure: rows in, numbers out. Sums count only what was reported or inferred; null stays out.

export const CAUSES = ["canonical", "placement", "snapshot", "warmup"]; // the gateway's own share
const NEWEST_MESSAGE = 64; // tokens that any warm request still computes: what the user has just written
const WARM = 0.9;
const COLD = 0.1;

/** The part of the prompt that was reused, 0 to 1; null where it is not known. */
export function share(row) {
  if (row.cached === null || row.cached === undefined || !row.prompt) return null;
  return Math.min(1, Math.max(0, row.cached / row.prompt));
}

/** "warm", "partial" or "cold"; null where the reuse is not known. */
export function warmth(row) {
  const reused = share(row);
  if (reused === null) return null;
  if (row.cached > 0 && (reused >= WARM || row.prompt - row.cached <= NEWEST_MESSAGE)) return "warm";
  return reused < COLD ? "cold" : "partial";
}

export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function reuse(rows) {
  const counted = rows.filter((row) => share(row) !== null);
  const prompt = sum(counted.map((row) => row.prompt));
  const cached = sum(counted.map((row) => Math.min(row.cached, row.prompt)));
  return {
    prompt,
    cached,
    share: prompt ? cached / prompt : null,
    inferred: counted.filter((row) => row.cached_source === "inferred").length,
    unknown: rows.filter((row) => row.outcome === "ok" && share(row) === null).length,
  };
}

/** Seconds saved: `own` by the gateway, each cause by name, and `server`, which a server would have saved without it. */
export function saved(rows) {
  const by = Object.fromEntries([...CAUSES, "server"].map((cause) => [cause, sum(rows.map((row) => row.saved?.[cause] ?? 0))]));
  return { ...by, own: sum(CAUSES.map((cause) => by[cause])) };
}

/** Time to first token of warm and cold requests: medians and how many. */
export function firstToken(rows) {
  const timed = rows.filter((row) => typeof row.ttft === "number" && warmth(row) !== null);
  const of = (kind) => timed.filter((row) => warmth(row) === kind).map((row) => row.ttft);
  const [warm, cold] = [of("warm"), of("cold")];
  return { timed, warm: median(warm), cold: median(cold), warmCount: warm.length, coldCount: cold.length };
}

/** What cost prefill, by reason, section and client, the dearest first: {..., seconds, tokens, count, worst: the dearest request}. */
export function breakers(rows) {
  const groups = new Map();
  for (const row of rows) {
    if (!row.reason || !(row.lost_seconds > 0 || row.lost_tokens > 0)) continue;
    const { reason, section = null, client } = row;
    const key = JSON.stringify([reason, section, client?.agent]);
    const group = groups.get(key) ?? { key, reason, section, agent: client?.agent, seconds: 0, tokens: 0, count: 0, worst: row };
    group.seconds += row.lost_seconds ?? 0;
    group.tokens += row.lost_tokens ?? 0;
    group.count += 1;
    if ((row.lost_tokens ?? 0) > (group.worst.lost_tokens ?? 0)) group.worst = row;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.seconds - a.seconds || b.tokens - a.tokens);
}

/** The conversations that a backend read last, the newest first: what its slots held then, as far as can be seen from here. */
export function lastRead(rows, backend, limit) {
  const found = new Map();
  for (const row of rows) {
    if (row.backend !== backend || row.outcome !== "ok" || !row.prompt) continue;
    const key = JSON.stringify([row.model, row.kind, row.session || row.route || row.id]);
    if (!found.has(key)) found.set(key, row);
    if (found.size >= limit) break;
  }
  return [...found.values()];
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
