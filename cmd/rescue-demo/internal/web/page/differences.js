// What two runs of one scenario differ in, by what the robots saw.
import { CLASS_NAMES } from "./model.js";

const COLUMNS = [
  { name: "entries", of: (c) => c.entries, text: String },
  { name: "airtime", of: (c) => c.airtime },
  { name: "wait, median", of: (c) => c.waitP50, waits: true },
  { name: "p99", of: (c) => c.waitP99, waits: true },
  { name: "max", of: (c) => c.waitMax, waits: true },
  { name: "in vain", of: (c) => c.inVain },
];

const seconds = (v) => v.toFixed(1) + " s";
const signed = (v, text) => { // what is shown as 0 has no sign
  const shown = text(Math.abs(v));
  return Number.parseFloat(shown) === 0 ? shown : (v < 0 ? "−" : "+") + shown;
};

/** HEADINGS are those of the columns. */
export const HEADINGS = COLUMNS.map((c) => c.name);

/**
 * compare returns the rows of the table, one for each class: {name, fields}, a field being [first, second, difference]
 * in words, "–" where there is nothing to say. first and second are figures as telemetry publishes them, or null.
 */
export function compare(first, second) {
  return CLASS_NAMES.map((name, i) => ({ name, fields: COLUMNS.map((column) => field(column, first?.classes[i], second?.classes[i])) }));
}

/** alike reports whether two scenes are of one scenario and seed: ruins, robots and the rest are the same. */
export function alike(a, b) {
  const [x, y] = [a, b].map(({ width, height, ruins, robots, frequencies, duration }) => JSON.stringify([width, height, ruins, robots, frequencies, duration]));
  return x === y;
}

function field({ of, text = seconds, waits }, a, b) {
  const value = (c) => (c && Number.isFinite(of(c)) && !(waits && !c.entries) ? of(c) : null); // who never entered has waited for nothing
  const [x, y] = [value(a), value(b)];
  const shown = (v) => (v === null ? "–" : text(v));
  return [shown(x), shown(y), x === null || y === null ? "–" : signed(y - x, text)];
}
