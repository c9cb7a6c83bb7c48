// Backends: whether they are up, which models are resident and until when, and what their slots were last given.

import { byId, h, replace } from "./dom.js";
import { bytes, clock, fromNow, plural, tokens } from "./format.js";
import { lastRead } from "./numbers.js";

const MOST_SLOTS = 4; // conversations shown of one backend
const NO_SLOTS = 2; // where the server does not say how many slots it has

/** rows: newest first. */
export function showBackends(backends, rows) {
  const open = new Set([...byId("backends").querySelectorAll("details[open]")].map((details) => details.dataset.name));
  const focused = document.activeElement?.closest("summary")?.parentElement.dataset.name;
  const cards = backends.map((backend) => card(backend, rows, open.has(backend.name)));
  replace(byId("backends"), cards.length ? cards : h("p", { class: "nothing" }, "No backend is configured, and none was found."));
  if (focused) [...byId("backends").querySelectorAll("details")].find((details) => details.dataset.name === focused)?.firstChild.focus();
}

/** [state for the style, word]. The first that holds. */
export function health(backend) {
  if (backend.loading) return ["wait", "loading"];
  if (!backend.up) return ["down", "down"];
  if (backend.circuit_open) return ["down", "circuit open"];
  if (backend.sleeping) return ["wait", "asleep"];
  return ["up", "up"];
}

function card(backend, rows, open) {
  const [state, word] = health(backend);
  const load = [
    Number.isInteger(backend.slots) ? `${backend.in_flight} of ${plural(backend.slots, "slot")} busy` : running(backend.in_flight),
    backend.waiting ? `${backend.waiting} waiting` : null,
  ];
  return h("article", { class: "card backend" },
    h("div", { class: "heading" },
      h("h3", {}, backend.name),
      h("span", { class: "pill", "data-state": state }, word)),
    h("p", { class: "note" }, [backend.kind, backend.version, backend.url].filter(Boolean).join(" · ")),
    backend.problem ? h("p", { class: "fault" }, backend.problem) : null,
    backend.up ? [h("p", { class: "note" }, load.filter(Boolean).join(", ")), models(backend, open), slots(backend, rows)] : null);
}

const running = (count) => (count ? `${count} running` : "idle");

function models(backend, open) {
  const resident = backend.models.filter((model) => model.resident);
  const others = backend.models.filter((model) => !model.resident);
  const silent = others.length > 0 && others.every((model) => model.resident === null);
  const more = `${plural(others.length, "model")} ${silent ? "listed; the server does not say which are loaded" : "not loaded"}`;
  return [
    resident.length ? h("ul", { class: "models" }, resident.map(residentModel)) : null,
    others.length
      ? h("details", { "data-name": backend.name, open },
          h("summary", {}, more),
          h("ul", { class: "models" }, others.map((model) => h("li", {}, h("span", { class: "name" }, model.name)))))
      : null,
  ];
}

function residentModel(model) {
  const until = typeof model.expires === "number" ? `until ${clock(model.expires)} (${fromNow(model.expires)})`
    : model.never_expires ? "until it is unloaded" : "resident";
  const facts = [until, model.bytes ? bytes(model.bytes) : null, model.context ? `${tokens(model.context)} context` : null];
  return h("li", {},
    h("span", { class: "name" }, model.name),
    h("span", { class: "note" }, facts.filter(Boolean).join(" · ")));
}

function slots(backend, rows) {
  if (backend.slot_use) return slotsKnown(backend.slot_use);
  const limit = Math.min(Number.isInteger(backend.slots) ? backend.slots : NO_SLOTS, MOST_SLOTS);
  const held = lastRead(rows, backend.name, limit);
  if (!held.length) return null;
  return h("div", {},
    h("h4", {}, "Last read into its cache"),
    h("ul", { class: "models" }, held.map((row) => h("li", {},
      h("span", { class: "name" }, row.model ?? "no model named"),
      h("span", { class: "note" },
        `${tokens(row.prompt)} tokens · ${row.session ? `conversation ${row.session}` : row.kind} · ${fromNow(row.time)}`)))));
}

/** What the gateway believes of each slot, as /slots of the server last confirmed it. */
function slotsKnown(use) {
  const pinning = use.pins ? "Requests are pinned to slots." : `No pinning: ${use.why_no_pins}.`;
  return h("div", {},
    h("h4", {}, "Slots"),
    h("p", { class: "note" }, pinning),
    h("ul", { class: "models" }, use.slots.map((slot) => h("li", {},
      h("span", { class: "name" }, `${slot.number}: ${slotState(slot)}`),
      h("span", { class: "note" }, slotHolds(slot))))));
}

function slotState(slot) {
  if (slot.busy) return "busy";
  if (slot.draining) return "stopping";
  return slot.foreign ? "used by somebody else" : "idle";
}

function slotHolds(slot) {
  if (slot.tokens === null) return "nothing known";
  const whose = slot.session ? `conversation ${slot.session}` : slot.side ? "a side request" : null;
  return [`${tokens(slot.tokens)} tokens`, whose, fromNow(slot.used)].filter(Boolean).join(" · ");
}
