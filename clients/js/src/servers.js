// Who serves locks, as the participants' presences say (docs/topics.md): it tells a
// server that is busy from one that is not there.
import { parse } from "./json.js";
import { decodeLevel } from "./level.js";

export class Servers {
  /** @type {Map<string, { epoch: bigint, serves: boolean }>} */
  #alive = new Map();

  /** names are those of the participants that serve. */
  get names() { return [...this.#alive].filter(([, p]) => p.serves).map(([id]) => id); }

  /**
   * heard takes a message from R/presence/{level}, and reports whether the servers are
   * others now.
   * @param {string} level @param {string} text
   */
  heard(level, text) {
    const id = decodeLevel(level), before = this.#alive.get(id);
    const { alive, epoch: digits, userData } = parse(text) ?? {};
    const epoch = /^\d{1,20}$/.test(digits) ? BigInt(digits) : 0n, serves = alive === true && userData?.serves === "locks";
    if (text !== "" && epoch < (before?.epoch ?? 0n)) return false; // a last will that came after the next birth
    if (alive === true) this.#alive.set(id, { epoch, serves });
    else this.#alive.delete(id);
    return serves !== (before?.serves ?? false);
  }

  /** forget is for the next connection, which is told again. */
  forget() { this.#alive.clear(); }
}
