// What cost the most: reasons ranked by seconds lost. Each opens its dearest request.

import { bar } from "./charts.js";
import { byId, h, replace } from "./dom.js";
import { plural, seconds, tokens, words } from "./format.js";
import { breakers } from "./numbers.js";

const MOST = 6;

/** open: called with the id of a request. */
export function showBreakers(rows, open) {
  const found = breakers(rows).slice(0, MOST);
  const focused = document.activeElement?.dataset?.breaker;
  replace(byId("breakers"), found.length
    ? h("ol", { class: "breakers" }, found.map((group) => line(group, found[0].seconds, open)))
    : h("p", { class: "nothing" }, "Nothing was lost."));
  if (focused) [...byId("breakers").querySelectorAll("button")].find((button) => button.dataset.breaker === focused)?.focus();
}

function line(group, most, open) {
  const title = [words(group.reason), group.section].filter(Boolean).join(" · ");
  return h("li", {},
    h("button", { type: "button", "data-breaker": group.key, "aria-haspopup": "dialog", click: () => open(group.worst.id) },
      h("span", { class: "heading" }, h("span", { class: "reason" }, title), h("strong", {}, seconds(group.seconds))),
      bar(most > 0 ? group.seconds / most : 0),
      h("span", { class: "note" }, [plural(group.count, "request"), `${tokens(group.tokens)} tokens`, group.agent].filter(Boolean).join(" · "))));
}
