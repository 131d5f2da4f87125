// The decisions of roots that were seen, by lock: a state has only the latest.
import { parseFence } from "./epoch.js";

const MOST = 1000; // decisions that are kept, about
const EACH = 400; // of one lock, at most
const LOCKS = 500; // of which any are kept

/**
 * Decisions keeps some of each lock, so that one that is busy takes nothing from the others.
 * A decision is what readState returns.
 */
export class Decisions {
  constructor() {
    this.locks = new Map(); // by key: decisions, the newest last; the lock that had one last is the last
  }

  /** note takes the decision of a state; null: it has none. */
  note(key, decision) {
    if (!decision || decision.how === "resumed") return; // a hold went on: nothing was decided
    const own = this.locks.get(key) ?? [], last = own.at(-1);
    if (last?.fence === decision.fence) own.pop(); // the same, or what is said of it now
    own.push(decision);
    this.locks.delete(key);
    this.locks.set(key, own);
    const most = Math.max(2, Math.min(EACH, Math.floor(MOST / this.locks.size)));
    if (own.length > 1.2 * most) own.splice(0, own.length - most);
    if (this.locks.size > LOCKS) this.locks.delete(this.locks.keys().next().value);
  }

  /** of returns the decision that an entry with this fence was made on, or undefined. */
  of(key, fence) {
    const n = parseFence(fence);
    const d = this.locks.get(key)?.findLast((d) => parseFence(d.fence) <= n);
    return d && n - parseFence(d.fence) < BigInt(d.fences) ? d : undefined;
  }

  /** first is the oldest decision about a lock that is kept, or undefined. */
  first(key) {
    return this.locks.get(key)?.[0];
  }
}
