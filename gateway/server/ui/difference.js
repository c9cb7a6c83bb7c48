// Where two prompts part: the place always, the text before and after only where the gateway keeps it.

import { h } from "./dom.js";
import { words } from "./format.js";

const AROUND = 160; // characters of equal text shown on each side
const LONGEST = 2000; // characters shown of a change
const WORD = 40; // characters that a change may grow by on each side, so that it begins and ends with a word
const SPACE = /\s/;

/** null where the prompts do not differ. detector: name of the rule that knows such a change, or null. */
export function difference(found, detector) {
  if (!found) return null;
  const place = found.exact ? `at byte ${found.offset}` : `near byte ${found.offset}${found.within ? `, within ${found.within} bytes` : ""}`;
  const kept = typeof found.before === "string" && typeof found.after === "string";
  return h("section", { class: "difference" },
    h("h3", {}, "First difference"),
    h("p", {}, `In ${words(found.section ?? "the prompt")}, ${place}.`, detector ? ` The rule ${detector} knows such changes.` : ""),
    kept ? texts(found.before, found.after) : h("p", { class: "note" },
      "The text itself is not kept. With ", h("code", {}, "explain: { store: text }"), " in the configuration it is, and is shown here."));
}

function texts(before, after) {
  const { head, old, fresh, tail } = split(before, after);
  const parts = (tag, changed) => [start(head), changed ? h(tag, {}, cut(changed)) : null, end(tail)];
  return h("div", { class: "diff" },
    h("h4", {}, "Before"),
    h("pre", { tabindex: "0", "aria-label": "Text before" }, parts("del", old)),
    h("h4", {}, "Now"),
    h("pre", { tabindex: "0", "aria-label": "Text now" }, parts("ins", fresh)));
}

/** What both begin with, what each has in the middle, and what both end with. Whole characters, never half a surrogate pair. */
export function split(before, after) {
  const [a, b] = [[...before], [...after]];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  head -= reach((step) => a[head - step], head);
  tail -= reach((step) => a[a.length - tail + step - 1], tail);
  return {
    head: a.slice(0, head).join(""),
    old: a.slice(head, a.length - tail).join(""),
    fresh: b.slice(head, b.length - tail).join(""),
    tail: a.slice(a.length - tail).join(""),
  };
}

/** How many characters there are up to the next space; 0 when that is too far away to be a word's end. */
function reach(at, most) {
  for (let step = 1; step <= Math.min(most, WORD); step += 1) if (SPACE.test(at(step))) return step - 1;
  return most <= WORD ? most : 0;
}

const start = (text) => (text.length > AROUND ? `…${text.slice(-AROUND)}` : text);
const end = (text) => (text.length > AROUND ? `${text.slice(0, AROUND)}…` : text);
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text);
