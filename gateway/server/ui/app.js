// The page: it is filled from /status and /requests, and then follows /events.

import { getRows, getSession, getStatus, signIn, signOut } from "./api.js";
import { health, showBackends } from "./backends.js";
import { showBreakers } from "./breakers.js";
import { byId } from "./dom.js";
import { Drawer } from "./drawer.js";
import { percent, plural } from "./format.js";
import { showHeadline } from "./headline.js";
import { follow } from "./live.js";
import { reuse } from "./numbers.js";
import { keyOf, Requests } from "./requests.js";

const KEEP = 500; // rows: as many as the gateway keeps unless it is told otherwise
const DRAW = 100; // milliseconds between two drawings at least
const TICK = 5000; // milliseconds between two looks at the clock, for what is told as "in 4 min"
const QUIET = 30_000; // milliseconds between two announcements of new requests

const state = {
  status: null, // as /status gave it, with the backends of later events; null until then
  rows: new Map(), // keyOf(row) -> row
  running: new Map(), // flightOf(run) -> {id, number, backend}
  live: null, // the same of rows that came while `load` waits for its answers
  since: 0, // rows since the last announcement
  spoken: 0,
  drawing: null,
  ticking: null,
  stop: null, // ends the event stream
};
const drawer = new Drawer();
const table = new Requests((id) => drawer.open(id));

// Data

/** What tells one running request from another: an id may be a client's, and several requests' at once. */
const flightOf = ({ id, number }) => `${number} ${id}`;

const on = {
  hello: () => load(),
  lost() {
    link("down", "connection lost, trying again");
    if (!state.status) load();
    else checkSession();
  },
  request(row) {
    state.running.delete(flightOf(row));
    state.rows.set(keyOf(row), row);
    state.live?.set(keyOf(row), row);
    state.since += 1;
    draw();
  },
  started(run) {
    state.running.set(flightOf(run), run);
    draw();
  },
  backend(backend) {
    const backends = state.status?.backends ?? [];
    const index = backends.findIndex((other) => other.name === backend.name);
    if (index >= 0 && health(backends[index])[1] !== health(backend)[1]) announce(`Backend ${backend.name}: ${health(backend)[1]}.`);
    if (index >= 0) backends[index] = backend;
    else backends.push(backend);
    draw();
  },
  gone({ name }) {
    if (state.status) state.status.backends = state.status.backends.filter((backend) => backend.name !== name);
    draw();
  },
};

/** Everything anew: at the start, and after each new connection, since a restarted gateway remembers other requests. */
async function load() {
  const live = (state.live = new Map());
  try {
    const [status, rows] = await Promise.all([getStatus(), getRows(KEEP)]);
    if (state.live !== live) return; // another load began meanwhile, and knows better
    const again = state.status !== null;
    state.status = status;
    state.rows = new Map([...rows.map((row) => [keyOf(row), row]), ...live]);
    state.running = new Map((status.in_flight ?? []).map((run) => [flightOf(run), run]));
    state.live = null;
    link("up", "live");
    drawNow();
    if (again) announce("Connected again.");
    else drawer.openNamed();
  } catch (refused) {
    link("down", refused.message);
    if (refused.status === 401) checkSession();
  }
}

function newestFirst() {
  const rows = [...state.rows.values()].sort((a, b) => b.time - a.time).slice(0, KEEP);
  if (rows.length < state.rows.size) state.rows = new Map(rows.map((row) => [keyOf(row), row]));
  return rows;
}

// Drawing

function draw() {
  state.drawing ??= setTimeout(() => {
    state.drawing = null;
    if (state.status) drawNow();
  }, DRAW);
}

function drawNow() {
  const rows = newestFirst();
  const { status } = state;
  byId("page").hidden = false;
  byId("version").textContent = `${status.version}${status.draining ? " · shutting down" : ""}`;
  byId("running").textContent = state.running.size ? `${plural(state.running.size, "request")} running` : "";
  const down = status.backends.filter((backend) => health(backend)[0] === "down").length;
  byId("alarm").textContent = down ? `${down} of ${plural(status.backends.length, "backend")} down` : "";
  showHeadline(rows);
  showBackends(status.backends, rows);
  showBreakers(rows, (id) => drawer.open(id));
  table.show(rows, empty(status));
  speak(rows);
}

function empty(status) {
  const door = status.listeners?.[0]?.address;
  return door ? `No requests yet. Point a client at http://${door}.` : "No requests yet.";
}

function link(name, text) {
  byId("link").dataset.state = name;
  if (byId("link").textContent === text) return;
  byId("link").textContent = text;
  if (name === "down") announce(`Not live: ${text}.`);
}

// For screen readers: seldom, and only what somebody who looks elsewhere would want to know

function announce(text) {
  byId("announce").textContent = text;
}

function speak(rows) {
  if (!state.since || Date.now() - state.spoken < QUIET) return;
  announce(`${plural(state.since, "new request")}; ${percent(reuse(rows).share)} of the prompts reused.`);
  state.since = 0;
  state.spoken = Date.now();
}

// Signing in

async function checkSession() {
  const session = await getSession().catch(() => null); // nobody answers: the stream is tried again anyway
  if (session && !session.valid) closed();
}

function closed() {
  state.stop?.();
  state.stop = null;
  clearInterval(state.ticking);
  state.status = null;
  state.live = null; // a load that is under way comes too late
  if (byId("drawer").open) byId("drawer").close();
  link("wait", "signed out");
  byId("page").hidden = true;
  byId("signout").hidden = true;
  byId("signin").hidden = false;
  byId("token").focus();
}

function opened(token) {
  byId("signin").hidden = true;
  byId("signout").hidden = !token;
  link("wait", "connecting");
  state.stop = follow(on);
  state.ticking = setInterval(draw, TICK);
}

byId("signin-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("signin-fault").textContent = "";
  try {
    await signIn(byId("token").value);
    byId("token").value = "";
    opened(true);
  } catch (refused) {
    byId("signin-fault").textContent = refused.message;
    byId("token").select();
  }
});

byId("signout").addEventListener("click", () => signOut().then(closed, (refused) => link("down", refused.message)));

getSession().then(
  (session) => (session.valid ? opened(session.token) : closed()),
  (refused) => link("down", refused.message),
);
