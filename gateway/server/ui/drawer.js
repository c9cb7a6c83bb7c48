// The explanation of one request: what was reused section by section, where it broke, what that cost and what helps.

import { Refused, getExplanation, getRow } from "./api.js";
import { bar } from "./charts.js";
import { difference } from "./difference.js";
import { byId, h, prose, replace } from "./dom.js";
import { clock, seconds, tokens, words } from "./format.js";
import { expectedText, reusedWords } from "./requests.js";

const MARK = "#request=";

export class Drawer {
  constructor() {
    this.dialog = byId("drawer");
    this.asked = null; // the id whose answer is awaited or shown
    byId("drawer-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close(); // the backdrop
    });
    this.dialog.addEventListener("close", () => {
      this.asked = null;
      history.replaceState(null, "", location.pathname);
    });
  }

  async open(id) {
    this.asked = id;
    history.replaceState(null, "", `${MARK}${encodeURIComponent(id)}`); // an address that can be kept and sent on
    if (!this.dialog.open) this.dialog.showModal(); // which gives the focus back when it is closed
    byId("drawer-title").textContent = "Request";
    byId("drawer-title").focus();
    replace(byId("drawer-body"), h("p", { class: "note" }, "Looking it up"));
    const [row, explanation] = await Promise.allSettled([getRow(id), getExplanation(id)]);
    if (this.asked !== id) return; // another one was opened meanwhile, or none
    this.show(row, explanation);
  }

  /** Open what the page's address names, if it does. */
  openNamed() {
    if (location.hash.startsWith(MARK)) this.open(decodeURIComponent(location.hash.slice(MARK.length)));
  }

  show(row, explanation) {
    const told = explanation.value;
    byId("drawer-title").textContent = told?.reason ? capital(words(told.reason)) : told ? "Nothing was lost" : "Request";
    replace(byId("drawer-body"),
      told ? this.explained(told) : refusal(explanation.reason),
      row.value ? facts(row.value) : explanation.value ? refusal(row.reason) : null);
    byId("drawer-body").scrollTop = 0;
  }

  explained(told) {
    return [
      told.sentence ? h("p", { class: "sentence" }, prose(told.sentence)) : null,
      cost(told),
      sections(told.sections ?? []),
      difference(told.difference, told.detector),
      fix(told.fix),
      told.compared_with
        ? h("p", { class: "note" }, "Compared with the nearest earlier request: ",
            h("button", { type: "button", class: "inline", click: () => this.open(told.compared_with) }, told.compared_with))
        : null,
    ];
  }
}

function refusal(reason) {
  const sentence = reason instanceof Refused ? reason.message : "This request could not be shown.";
  return h("p", { class: "fault", role: "alert" }, prose(sentence));
}

function cost(told) {
  const lost = told.lost ?? {};
  if (!(lost.tokens > 0) && !(lost.seconds > 0)) return null;
  return h("p", { class: "cost" },
    h("strong", {}, seconds(lost.seconds)), " and ", h("strong", {}, `${tokens(lost.tokens)} tokens`), " of prefill were spent again.");
}

function sections(list) {
  if (!list.length) return null;
  const whole = Math.max(...list.map((section) => section.tokens), 1);
  return h("section", {},
    h("h3", {}, "The prompt, section by section"),
    h("ul", { class: "sections" }, list.map((section) => {
      const part = section.tokens ? Math.min(1, section.reused / section.tokens) : 0;
      return h("li", { class: section.reused < section.tokens ? "broken" : null },
        h("span", { class: "name" }, section.name),
        h("span", { class: "number" }, `${tokens(section.reused)} of ${tokens(section.tokens)} reused`),
        h("span", { class: "length" }, sized(bar(part), section.tokens / whole)));
    })));
}

/** The longest section fills the width, the others are as long as they are against it. */
function sized(svg, part) {
  svg.setAttribute("width", `${Math.max(2, part * 100).toFixed(1)}%`);
  return svg;
}

function fix(given) {
  if (!given?.text) return null;
  return h("section", { class: "fix" },
    h("h3", {}, "What helps"),
    h("p", {}, prose(given.text)),
    given.config ? h("pre", { class: "code", tabindex: "0", "aria-label": "Configuration line" }, given.config) : null,
    given.config && navigator.clipboard ? copy(given.config) : null);
}

function copy(text) {
  const button = h("button", { type: "button" }, "Copy");
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(text).then(() => (button.textContent = "Copied"), () => (button.textContent = "Not allowed to copy"));
  });
  return button;
}

function facts(row) {
  const saved = Object.entries(row.saved ?? {}).filter(([, value]) => value > 0);
  const edits = Object.entries(row.edits ?? {});
  const overhead = Object.values(row.overhead ?? {}).reduce((total, value) => total + value, 0);
  const list = [
    ["Time", clock(row.time)],
    ["Outcome", [words(row.outcome), row.status, row.error].filter(Boolean).join(" · ")],
    ["Model", row.model],
    ["Backend", [row.backend, row.decision ? `route: ${words(row.decision)}` : null].filter(Boolean).join(" · ")],
    ["Client", [row.client?.agent, row.client?.address].filter(Boolean).join(" · ")],
    ["Request", [row.dialect, row.path, row.stream ? "stream" : "no stream", row.kind].filter(Boolean).join(" · ")],
    ["Conversation", row.session],
    ["Prompt", row.prompt === null ? null : `${tokens(row.prompt)} tokens`],
    ["Reused", row.cached === null ? "not reported" : `${tokens(row.cached)} tokens (${reusedWords(row)}, from ${row.cached_source})`],
    ["Expected", expectedText(row)],
    ["Answer", row.completion === null ? null : `${tokens(row.completion)} tokens`],
    ["First token", row.ttft === null ? null : `${seconds(row.ttft)}${row.first ? ` (${words(row.first)})` : ""}`],
    ["Whole answer", seconds(row.duration)],
    ["In the queue", row.queue > 0 ? seconds(row.queue) : null],
    ["Gateway's own time", overhead > 0 ? seconds(overhead) : null],
    ["Retries", row.retries ? String(row.retries) : null],
    ["Saved", saved.map(([cause, value]) => `${seconds(value)} by ${words(cause)}`).join(", ")],
    ["Edits", edits.map(([rule, count]) => `${rule} ${count}`).join(", ")],
    ["Id", row.id],
  ];
  return h("section", {},
    h("h3", {}, "The request"),
    h("dl", { class: "facts" }, list.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
