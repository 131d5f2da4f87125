// What can go wrong with a lock. Each message says what happened and what to do.

/** LockError is what all errors of this package have in common. */
export class LockError extends Error {
  get name() { return this.constructor.name; }
}

/** Busy: with wait: false somebody else holds the lock, or too many wait for it. */
export class Busy extends LockError {}

/** TimedOut: the timeout ended before the lock was had. */
export class TimedOut extends LockError {}

/** Lost: the hold is over although its holder has not released it. */
export class Lost extends LockError {}

/** Denied: the request cannot be served. */
export class Denied extends LockError {
  /** @param {string} reason a word to test for, of docs/clients.md @param {string} message */
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

/** NoServer: no broker answers, or nobody there serves locks. */
export class NoServer extends LockError {}

const REMEDIES = {
  undeclared: 'give a resource that the lock declares; show() tells them',
  unattainable: "give a longer within, or a smaller priority",
  unsupported: "leave out within, or the resource ANY",
};

/**
 * denial turns a final "denied" into the error that the caller of lock() gets.
 * @param {string} what lock and resource @param {{ reason?: string, detail?: string }} answer @param {boolean} wait
 */
export function denial(what, { reason = "refused", detail = "" }, wait) {
  if (reason === "busy" && !wait) return new Busy(`${what} is held by somebody else: leave out "wait: false" to wait for it, or try again later`);
  if (reason === "busy") return new Busy(`too many wait for ${what} already: try again later`);
  const remedy = REMEDIES[reason];
  return new Denied(reason, `the server denies ${what} (${reason})${detail && ": " + detail}${remedy ? ": " + remedy : ""}`);
}
