// The event stream, kept open. The browser's own reconnection gives up on some errors, so each stream is opened anew here.

import { address } from "./api.js";

const FIRST_WAIT = 500; // milliseconds
const LONGEST_WAIT = 10_000;
const NAMES = ["request", "started", "backend", "gone"];

/** Follow the events. on: {hello, lost, request, started, backend, gone}; each stream begins with `hello`. Returns what ends it. */
export function follow(on) {
  let source = null;
  let timer = null;
  let wait = FIRST_WAIT;

  function open() {
    source = new EventSource(address("events"));
    source.addEventListener("hello", () => {
      wait = FIRST_WAIT;
      on.hello();
    });
    for (const name of NAMES) source.addEventListener(name, (event) => on[name](JSON.parse(event.data)));
    source.addEventListener("error", () => {
      source.close();
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT);
      on.lost();
    });
  }

  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
