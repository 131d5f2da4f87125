// How long requests for a lock waited, and holders held it: a model without a page.
import { span } from "/base/dom.js";

const FEW = 10; // holds below which nothing is usual
const USUAL = 5; // times the 99th percentile that a hold may last
const BRIEF = 5000; // ms that are never too long

const summary = (values) => {
  values.sort((a, b) => a - b);
  const at = (p) => values[Math.ceil(p * values.length) - 1] ?? 0; // the nearest rank
  return { n: values.length, p50: at(0.5), p99: at(0.99) };
};

/** timesOf sums up the events of a lock: {waiting, holding}, each {n, p50, p99} in ms. */
export function timesOf(events) {
  const waiting = [], holding = [];
  for (const e of events) {
    if (e.event === "granted") waiting.push(e.waited * 1000);
    else if (e.event === "released" || e.event === "lost") holding.push(e.held * 1000);
  }
  return { waiting: summary(waiting), holding: summary(holding) };
}

/** unusual reports whether a lock that is held for so many ms is held for longer than usual. */
export function unusual({ holding }, held) {
  return holding.n >= FEW && held > BRIEF && held > USUAL * holding.p99;
}

const brief = (ms) => (ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)}ms` : span(ms));

/** inWords is a summary for people: half of all, and 99 of 100, took no longer. */
export const inWords = ({ n, p50, p99 }) => (n ? `${brief(p50)} / ${brief(p99)}` : "–");

const keys = {
  for: (row) => row.heldFor,
  queue: (row) => row.state.waiting,
  waited: (row) => row.times.waiting.p99,
  held: (row) => row.times.holding.p99,
};

/** ranked sorts rows, {state, heldFor, times}, by a key, the most first, and those that are equal by compare. */
export function ranked(rows, by, compare) {
  const value = keys[by] ?? (() => 0);
  return rows.map((row) => [value(row), row]).sort(([a, x], [b, y]) => b - a || compare(x, y)).map(([, row]) => row);
}
