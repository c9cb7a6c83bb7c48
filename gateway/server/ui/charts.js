// Small charts as inline SVG. Colours come from classes in style.css; every chart says in words what it shows.

import { s } from "./dom.js";
import { percent, seconds } from "./format.js";
import { share, warmth } from "./numbers.js";

const WIDTH = 240;
const HEIGHT = 44;
const LAST = 60; // requests in a chart
const FEWEST = 24; // requests that fill it: with fewer the left stays empty

/** How much of the prompt was reused, one bar for each request, the newest on the right. rows: newest first. */
export function reuseBars(rows) {
  const shown = rows.filter((row) => share(row) !== null).slice(0, LAST).reverse();
  if (!shown.length) return null;
  const step = WIDTH / Math.max(shown.length, FEWEST);
  const left = WIDTH - step * shown.length;
  const bars = shown.flatMap((row, index) => {
    const height = share(row) * HEIGHT;
    const at = { x: fixed(left + index * step), width: fixed(step - 1) };
    return [
      s("rect", { ...at, y: 0, height: HEIGHT, class: "fresh" }),
      s("rect", { ...at, y: fixed(HEIGHT - height), height: fixed(height), class: "reused" }),
    ];
  });
  const low = shown.filter((row) => warmth(row) === "cold").length;
  return chart(`Reuse of the last ${shown.length} requests: ${shown.length - low} reused their prefix, ${low} began cold.`, bars);
}

/** Time to first token of single requests over time, on a logarithmic scale. rows: newest first. */
export function firstTokenDots(rows) {
  const shown = rows.slice(0, LAST).reverse();
  if (!shown.length) return null;
  const times = shown.map((row) => Math.max(row.ttft, 0.001));
  const [low, high] = [Math.log10(Math.min(...times)), Math.log10(Math.max(...times))];
  const span = Math.max(high - low, 0.3);
  const step = (WIDTH - 8) / Math.max(shown.length, FEWEST);
  const dots = shown.map((row, index) => {
    const x = WIDTH - 4 - (shown.length - 1 - index) * step;
    const y = HEIGHT - 5 - ((Math.log10(times[index]) - low) / span) * (HEIGHT - 10);
    return s("path", { d: `M${fixed(x)} ${fixed(y)}h0.01`, class: `dot ${warmth(row)}` }); // its round ends are the dot
  });
  const range = `${seconds(Math.min(...times))} to ${seconds(Math.max(...times))}`;
  return chart(`Time to first token of the last ${shown.length} streams, from ${range}, logarithmic.`, dots);
}

/** One bar made of parts: [[class, size]]. */
export function stack(label, parts) {
  const whole = parts.reduce((total, [, size]) => total + size, 0);
  if (!(whole > 0)) return null;
  let x = 0;
  const pieces = parts.filter(([, size]) => size > 0).map(([name, size]) => {
    const width = (size / whole) * WIDTH;
    const piece = s("rect", { x: fixed(x), y: 0, width: fixed(Math.max(width - 1, 0.5)), height: 10, class: name });
    x += width;
    return piece;
  });
  return s("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", class: "stack", role: "img", "aria-label": label }, ...pieces);
}

/** The bar of one request or section; the number stands beside it as text, so it is hidden from screen readers. */
export function bar(part, expected = null) {
  const tick = expected === null ? null : s("rect", { x: fixed(Math.min(expected, 1) * 99), y: 0, width: 1, height: 8, class: "tick" });
  const filled = part === null ? null : s("rect", { x: 0, y: 1, width: fixed(part * 100), height: 6, class: "reused" });
  const back = s("rect", { x: 0, y: 1, width: 100, height: 6, class: part === null ? "unknown" : "fresh" });
  return s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "meter", "aria-hidden": "true" }, back, filled, tick);
}

/** `tick` of `bar` in words. */
export const expectedWords = (part) => `expected ${percent(part)}`;

function chart(label, marks) {
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "chart", role: "img", "aria-label": label };
  return s("svg", box, ...marks);
}

const fixed = (value) => value.toFixed(2);
