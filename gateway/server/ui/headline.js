// The three numbers at the top, over the requests that the gateway still remembers.

import { firstTokenDots, reuseBars, stack } from "./charts.js";
import { byId, h, replace } from "./dom.js";
import { clock, percent, plural, seconds, tokens } from "./format.js";
import { CAUSES, firstToken, reuse, saved } from "./numbers.js";

const NAMES = { canonical: "stable prompts", placement: "placement", snapshot: "snapshots", warmup: "warm-up" };

/** rows: newest first. */
export function showHeadline(rows) {
  showReused(rows);
  showSaved(rows);
  showFirstToken(rows);
  const first = rows.at(-1);
  byId("window").textContent = first ? `Over the last ${plural(rows.length, "request")}, since ${clock(first.time)}.` : "";
}

function showReused(rows) {
  const { share, cached, prompt, inferred, unknown } = reuse(rows);
  const remarks = [
    prompt ? `${tokens(cached)} of ${tokens(prompt)} prompt tokens` : "no counts yet",
    inferred ? `${inferred} inferred` : null,
    unknown ? `${unknown} not reported` : null,
  ];
  card("reused", "Prompt reused", percent(share), remarks, reuseBars(rows));
}

function showSaved(rows) {
  const by = saved(rows);
  const causes = CAUSES.filter((cause) => by[cause] > 0);
  const label = `Seconds saved: ${[...causes, "server"].map((cause) => `${NAMES[cause] ?? "server alone"} ${seconds(by[cause])}`).join(", ")}.`;
  const parts = [...causes, "server"].map((cause) => [`cause-${cause}`, by[cause]]);
  const legend = [...causes.map((cause) => [cause, NAMES[cause]]), ["server", "the servers alone"]];
  card("saved", "Saved by the gateway", seconds(by.own), ["prefill time that the servers' own caches would not have saved"], [
    stack(label, parts),
    h("ul", { class: "legend" }, legend.map(([cause, name]) =>
      h("li", {}, h("span", { class: `key cause-${cause}`, "aria-hidden": "true" }), `${name} ${seconds(by[cause])}`))),
  ]);
}

function showFirstToken(rows) {
  const { timed, warm, cold, warmCount, coldCount } = firstToken(rows);
  const faster = warm !== null && cold !== null && warm > 0 ? cold / warm : null;
  const value = [
    h("span", { class: "warm-text" }, seconds(warm), h("small", {}, " warm")),
    h("span", { class: "cold-text" }, seconds(cold), h("small", {}, " cold")),
  ];
  const remarks = [
    timed.length ? `medians of ${warmCount} warm and ${coldCount} cold streams` : "no streams yet",
    faster !== null && faster >= 1.5 ? `warm is ${faster >= 10 ? Math.round(faster) : faster.toFixed(1)} times faster` : null,
  ];
  card("ttft", "Time to first token", value, remarks, firstTokenDots(timed));
}

function card(id, title, value, remarks, chart) {
  replace(
    byId(id),
    h("h3", {}, title),
    h("p", { class: "value" }, value),
    h("p", { class: "note" }, remarks.filter(Boolean).join("; ")),
    chart,
  );
}
