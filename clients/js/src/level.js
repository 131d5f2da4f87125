// Topic levels, as docs/topics.md has them: bytes to which a broker gives a meaning are
// %XX, everything else stands as it is.

const RESERVED = /[ .*$+#/>%~]/g;
const REFUSED = /[\p{Cc}\p{Noncharacter_Code_Point}\p{Cs}]/u;
const BLANK = /^\p{White_Space}+$/u; // \s has a character more than servers call blank
const MOST = 128; // bytes

/**
 * encodeLevel returns a name as one topic level. It throws a TypeError if that cannot be;
 * what says which name is meant.
 * @param {string} name @param {string} what
 */
export function encodeLevel(name, what, most = MOST) {
  if (typeof name !== "string") throw new TypeError(`the ${what} is ${kind(name)}: give a string`);
  const bytes = new TextEncoder().encode(name).length;
  if (bytes < 1 || bytes > most) throw new TypeError(`the ${what} ${JSON.stringify(name.slice(0, 20))} has ${bytes} bytes: give 1 to ${most}`);
  if (REFUSED.test(name)) throw new TypeError(`the ${what} ${JSON.stringify(name)} has a character that brokers refuse: leave out control characters`);
  return name.replace(RESERVED, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0"));
}

/**
 * nameLevel is encodeLevel for a name that becomes a level of a subscription: servers refuse
 * what would be a wildcard there, and what cannot be seen.
 * @param {string} name @param {string} what
 */
export function nameLevel(name, what, most = MOST) {
  const level = encodeLevel(name, what, most);
  if (name === "+" || name === "#") throw new TypeError(`the ${what} ${JSON.stringify(name)} is a wildcard of MQTT, not a name: give another`);
  if (BLANK.test(name)) throw new TypeError(`the ${what} ${JSON.stringify(name)} is blank: choose a name that can be seen`);
  return level;
}

function kind(/** @type {unknown} */ value) {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** decodeLevel undoes encodeLevel. */
export function decodeLevel(/** @type {string} */ level) {
  return level.replace(/%([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
}
