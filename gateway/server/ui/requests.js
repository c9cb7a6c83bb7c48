// The table of requests. One row can be reached by Tab; arrow keys move between rows, Enter opens one.

import { bar, expectedWords } from "./charts.js";
import { byId, h, reorder, replace } from "./dom.js";
import { clock, percent, plural, seconds, tokens, words } from "./format.js";
import { share } from "./numbers.js";

const PAGE = 60; // rows shown at first, and with each "Show more"
const MOVES = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
const NO_REASON = "nothing lost";

/** What tells one finished request from another: an id may be a client's, and come again. */
export const keyOf = ({ id, time }) => `${time} ${id}`;

export class Requests {
  /** open: called with the id of a request whose explanation is wanted. */
  constructor(open) {
    this.open = open;
    this.rows = [];
    this.limit = PAGE;
    this.elements = new Map(); // id -> [row, element]
    byId("filters").addEventListener("change", () => {
      this.limit = PAGE;
      this.render();
    });
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("more").addEventListener("click", () => {
      this.limit += PAGE;
      this.render();
    });
    byId("rows").addEventListener("keydown", (event) => this.key(event));
    byId("rows").addEventListener("click", (event) => this.click(event));
    byId("rows").addEventListener("focusin", (event) => this.rove(event.target.closest("tr")));
  }

  /** rows: newest first; empty: a sentence for when there are none at all. */
  show(rows, empty) {
    this.rows = rows;
    this.empty = empty;
    options("model", rows.map((row) => row.model));
    options("backend", rows.map((row) => row.backend));
    options("reason", rows.map((row) => row.reason), words);
    this.render();
  }

  render() {
    const filters = Object.entries(Object.fromEntries(new FormData(byId("filters")))).filter(([, wanted]) => wanted !== "");
    const found = this.rows.filter((row) => filters.every(([name, wanted]) => row[name] === wanted));
    const shown = found.slice(0, this.limit);
    const elements = new Map(shown.map((row) => [keyOf(row), this.element(row)]));
    this.elements = elements;
    reorder(byId("rows"), [...elements.values()].map(([, element]) => element));
    if (!byId("rows").querySelector("[tabindex='0']")) byId("rows").firstElementChild?.setAttribute("tabindex", "0");
    byId("more").hidden = found.length <= shown.length;
    byId("more").textContent = `Show more (${plural(found.length - shown.length, "older request")})`;
    byId("rows").closest("table").hidden = !found.length;
    byId("nothing").hidden = found.length > 0;
    byId("nothing").textContent = this.rows.length ? "No request fits these filters." : this.empty;
  }

  element(row) {
    const [old, element] = this.elements.get(keyOf(row)) ?? [];
    if (old === row) return [row, element];
    const fresh = line(row);
    if (element) {
      fresh.tabIndex = element.tabIndex;
      element.replaceWith(fresh);
    }
    return [row, fresh];
  }

  click(event) {
    const element = event.target.closest("tr");
    if (!element || String(getSelection())) return; // a text that is being selected is not a click
    this.go(element);
  }

  key(event) {
    const element = event.target.closest("tr");
    if (!element || event.altKey || event.ctrlKey || event.metaKey) return;
    if ((event.key === "Enter" || event.key === " ") && event.target === element) {
      event.preventDefault();
      this.go(element);
    } else if (event.key in MOVES) {
      event.preventDefault();
      const all = [...byId("rows").children];
      const to = Math.max(0, Math.min(all.length - 1, all.indexOf(element) + MOVES[event.key]));
      all[to].focus();
    }
  }

  go(element) {
    element.focus();
    this.open(element.dataset.id);
  }

  rove(element) {
    for (const other of byId("rows").querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    if (element) element.tabIndex = 0;
  }
}

function line(row) {
  const reused = share(row);
  const failed = row.outcome !== "ok";
  return h("tr", { tabindex: "-1", "data-id": row.id, class: failed ? "failed" : null },
    h("td", { class: "when" },
      h("button", { type: "button", class: "plain", tabindex: "-1", "aria-haspopup": "dialog", title: "Why: open the explanation" },
        h("time", { datetime: new Date(row.time * 1000).toISOString() }, clock(row.time))),
      row.kind === "side" ? h("span", { class: "note" }, "side") : null,
      row.ttft === null ? null : h("span", { class: "note narrow" }, seconds(row.ttft))),
    h("td", { class: "model" },
      h("span", { class: "name" }, row.model ?? "no model named"),
      h("span", { class: "note" }, [row.backend, row.client?.agent].filter(Boolean).join(" · "))),
    h("td", { class: "reuse" },
      h("span", { class: "measure" }, bar(reused, reused === null ? null : expected(row)), h("span", { class: "share" }, reusedWords(row))),
      h("span", { class: failed ? "fault" : row.reason ? "reason" : "note" }, outcomeWords(row))),
    h("td", { class: "number wider" }, tokens(row.prompt)),
    h("td", { class: "number wider" }, seconds(row.ttft)),
    h("td", { class: "number wider" }, row.lost_seconds > 0 ? seconds(row.lost_seconds) : ""));
}

function expected(row) {
  return typeof row.expected === "number" && row.prompt ? row.expected / row.prompt : null;
}

/** Reported, inferred ("about") and not reported are three different things. */
export function reusedWords(row) {
  const reused = share(row);
  if (reused === null) return "not reported";
  return row.cached_source === "inferred" ? `about ${percent(reused)}` : percent(reused);
}

export function expectedText(row) {
  const part = expected(row);
  return part === null ? null : `${tokens(row.expected)} tokens (${expectedWords(part)})`;
}

function outcomeWords(row) {
  if (row.outcome !== "ok") return [words(row.outcome), row.error, row.status || null].filter(Boolean).join(" · ");
  if (!row.reason) return share(row) === null ? "" : NO_REASON;
  return [words(row.reason), row.section].filter(Boolean).join(" · ");
}

/** Fill a filter with the values that occur. What was chosen stays chosen, also when its last row has gone. */
function options(name, values, label = String) {
  const select = byId("filters").elements[name];
  const wanted = [...new Set(values.filter((value) => value !== null && value !== undefined))].sort();
  if (select.value && !wanted.includes(select.value)) wanted.push(select.value);
  const now = [...select.options].slice(1).map((option) => option.value);
  if (select.options.length && now.length === wanted.length && now.every((value, index) => value === wanted[index])) return;
  const chosen = select.value;
  replace(select, h("option", { value: "" }, "all"), wanted.map((value) => h("option", { value }, label(value))));
  select.value = chosen;
}
