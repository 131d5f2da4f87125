// What callers give, checked: a slip is an error that names the slip.
import { encodeLevel, nameLevel } from "./level.js";

/** ANY, as a resource, is whichever of those that the lock declares is free first. */
export const ANY = "*";

const DEFAULT_RESOURCE = "default";
const DEFAULT_PRIORITY = 100;
const LONGEST_NAME = 120; // bytes, of a lock
const LONGEST = 2 ** 31 - 1; // ms that setTimeout can wait, some 24 days
const LONGEST_DAY = 86_400_000; // ms, the most that servers take
const SHORTEST_LEASE = 200, LONGEST_LEASE = 600_000; // ms that servers take
const NEVER_LOCKS = ["gateway", "join", "client", "member", ANY]; // words of the topic contract

/** known throws if options has a key that is not listed, which is most often a slip of the keyboard. */
function known(/** @type {object} */ options, /** @type {string[]} */ keys, /** @type {string} */ what) {
  if (options === null || typeof options !== "object") throw new TypeError(`the options of ${what} are an object: { ${keys.join(", ")} }`);
  for (const key of Object.keys(options)) {
    if (!keys.includes(key)) throw new TypeError(`${what} has no option ${JSON.stringify(key)}: it has ${keys.join(", ")}`);
  }
}

/** @param {string} name @param {import("../index.js").LockOptions} options */
export function lockOptions(name, options = {}) {
  known(options, ["resource", "priority", "timeout", "wait", "within", "hold", "lease", "signal"], "lock");
  const { resource = DEFAULT_RESOURCE, wait = true, timeout, within, hold, lease, signal } = options;
  if (resource !== ANY) nameLevel(resource, "resource");
  if (typeof wait !== "boolean") throw new TypeError("wait is true or false: for how long is the timeout");
  span("timeout", timeout, LONGEST, ", or wait: false for now or not at all");
  span("within", within, LONGEST_DAY);
  span("hold", hold, LONGEST_DAY);
  span("lease", lease, LONGEST_LEASE, "", SHORTEST_LEASE);
  if (!wait && (timeout ?? within) !== undefined) throw new TypeError("wait: false does not wait, so it has no timeout or within");
  return { lock: name, level: lockLevel(name), resource, wait, timeout, within, hold, lease, signal, priority: priority(options.priority) };
}

/** span checks a time in ms. */
function span(/** @type {string} */ what, /** @type {unknown} */ ms, /** @type {number} */ most, remedy = "", least = 1) {
  if (ms === undefined || typeof ms === "number" && (ms >= least || least === 1 && ms > 0) && ms <= most) return;
  throw new RangeError(`a ${what} of ${typeof ms === "string" ? JSON.stringify(ms) : String(ms)}: give a number of milliseconds from ${least} to ${most}${remedy}`);
}

/** lockLevel is the level of a lock's name. */
export function lockLevel(/** @type {string} */ name) {
  if (NEVER_LOCKS.includes(name)) throw new TypeError(`${JSON.stringify(name)} has a meaning of its own: give the lock another name`);
  const slash = typeof name === "string" ? name.indexOf("/") : -1;
  if (slash >= 0) throw new TypeError(`the name of the lock ${JSON.stringify(name)}: what comes after a slash is a resource: give lock(${JSON.stringify(name.slice(0, slash))}, { resource: ${JSON.stringify(name.slice(slash + 1))} })`);
  return nameLevel(name, "name of the lock", LONGEST_NAME);
}

/** priority checks one, as the servers read it. */
export function priority(/** @type {number | undefined} */ p = DEFAULT_PRIORITY) {
  if (!Number.isSafeInteger(p)) throw new RangeError(`a priority of ${String(p)}: give an integer; smaller is more important`);
  return p;
}

/** @param {string} url @param {import("../index.js").ConnectOptions} options */
export function connectOptions(url, options = {}) {
  known(options, ["id", "username", "password", "prefix", "domain", "mqtt"], "connect");
  const { prefix = "padme", domain = "default" } = options;
  let u;
  try {
    u = new URL(url);
  } catch {
    throw new TypeError(`${JSON.stringify(url)} is no URL: give one like mqtt://127.0.0.1, or ws://127.0.0.1:8080 in a browser`);
  }
  checkScheme(u.protocol);
  const username = options.username ?? (decodeURIComponent(u.username) || undefined);
  const password = options.password ?? (decodeURIComponent(u.password) || undefined);
  if (password !== undefined && username === undefined) throw new TypeError("a password belongs to a user: give username, too");
  u.username = u.password = ""; // errors name the URL
  const id = options.id ?? username ?? `${globalThis.process?.versions?.node ? "node" : "web"}-${random()}`;
  return {
    id, level: nameLevel(id, "id"), url: u.href, username, password, mqtt: options.mqtt ?? {},
    root: `${encodeLevel(prefix, "prefix")}/v1/${encodeLevel(domain, "domain")}`,
  };
}

function checkScheme(/** @type {string} */ scheme) {
  const node = globalThis.process?.versions?.node !== undefined;
  if (node && ["mqtt:", "mqtts:", "tcp:", "ssl:"].includes(scheme) || ["ws:", "wss:"].includes(scheme)) return;
  if (node) throw new TypeError(`a URL that begins with ${JSON.stringify(scheme)}: give mqtt://, mqtts://, ws:// or wss://`);
  throw new TypeError(`a URL that begins with ${JSON.stringify(scheme)}: a browser connects to ws:// and wss:// only, such as that of "pubsub-node broker --ws 127.0.0.1:8080"`);
}

/** random returns letters and digits that nobody else has: a name, no secret. */
export function random() {
  return Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
}
