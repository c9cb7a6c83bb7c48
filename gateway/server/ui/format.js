// Numbers as people read them. null is "not known", which is never shown as 0.

export const UNKNOWN = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);

export function tokens(count) {
  if (!known(count)) return UNKNOWN;
  if (count < 1000) return `${Math.round(count)}`;
  if (count < 1e6) return `${short(count / 1e3)}k`;
  return `${short(count / 1e6)}M`;
}

export function seconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 0.0005) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${short(value)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A share from 0 to 1. What is not quite everything is never called 100 %, and what is not quite nothing never 0 %. */
export function percent(share) {
  if (!known(share)) return UNKNOWN;
  const whole = Math.round(share * 100);
  if (whole === 100 && share < 1) return "99 %";
  if (whole === 0 && share > 0) return "1 %";
  return `${whole} %`;
}

export function bytes(count) {
  if (!known(count)) return UNKNOWN;
  return count >= 1e9 ? `${short(count / 1e9)} GB` : `${short(count / 1e6)} MB`;
}

/** Seconds since the epoch -> time of the day, with the date unless it is today. */
export function clock(epoch) {
  if (!known(epoch)) return UNKNOWN;
  const time = new Date(epoch * 1000);
  const hour = [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
  if (time.toDateString() === new Date().toDateString()) return hour;
  return `${time.getDate()} ${time.toLocaleString("en", { month: "short" })} ${hour}`;
}

/** "in 4 min 10 s", "2 min 5 s ago". */
export function fromNow(epoch, now = Date.now() / 1000) {
  const away = epoch - now;
  if (Math.abs(away) < 1) return "now";
  const size = seconds(Math.max(1, Math.round(Math.abs(away))));
  return away > 0 ? `in ${size}` : `${size} ago`;
}

/** `history_changed` -> "history changed". */
export const words = (name) => String(name).replaceAll("_", " ");

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

function short(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}
