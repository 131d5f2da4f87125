// A client: one connection, any number of locks.
import { Connection } from "./connection.js";
import { Denied, Lost } from "./errors.js";
import { parse } from "./json.js";
import { connectOptions, lockLevel, lockOptions, priority } from "./options.js";
import { Request } from "./request.js";
import { Servers } from "./servers.js";
import { Show } from "./show.js";

const MOST = 256; // requests for one lock at once, of which servers take no more of one client
const WARNINGS = 64; // locks of which it says what a server warns of
const asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose"); // Node.js 18 has none

/**
 * connect connects to a broker. It rejects with NoServer if none answers, and with
 * Denied if it refuses.
 * @param {string} url @param {import("../index.js").ConnectOptions} [options]
 */
export async function connect(url, options) {
  const client = new Client(connectOptions(url, options));
  await client.open();
  return client;
}

export class Client {
  #options;
  #connection;
  #servers = new Servers();
  #requests = new Map(); // by id
  #settling = new Set(); // promises of requests that are being withdrawn
  #warned = new Set(); // locks of which a server has warned
  #count = 0;
  #closed = false;
  #closing;
  #answers;
  #presence;
  /** since when the servers are as they are, by performance.now() */
  since = 0;

  constructor(/** @type {ReturnType<typeof connectOptions>} */ options) {
    this.#options = options;
    this.#connection = new Connection(options, {
      opened: () => {
        this.since = performance.now();
        for (const r of this.#living) r.reopened();
      },
      closed: () => this.#servers.forget(),
      refused: (error) => {
        for (const r of this.#living) r.fail(error);
      },
      message: (topic, text) => this.#message(topic, text),
      longestPause: () => Math.min(...this.#living.map((r) => r.longestPause)),
    });
    this.#answers = `/client/${options.level}/answer`;
    this.#presence = `${options.root}/presence/`;
  }

  get id() { return this.#options.id; }
  get url() { return this.#options.url; }
  /** For requests: who serves, the present session, whether another will come, and why there is none. */
  get servers() { return this.#servers.names; }
  get session() { return this.#connection.session; }
  get ended() { return this.#connection.ended; }
  get trouble() { return this.#connection.trouble; }
  get #living() { return [...this.#requests.values()]; }

  open() { return this.#connection.open(); }

  /**
   * lock waits until the lock is had.
   * @param {string} name @param {import("../index.js").LockOptions} [options]
   */
  lock(name, options) {
    let request;
    try {
      request = new Request(this, lockOptions(name, options));
      this.#open();
    } catch (error) {
      return Object.assign(Promise.reject(error), { raise() {} });
    }
    const hold = request.promise.then(() => new Hold(request));
    Object.defineProperty(hold, "position", { get: () => request.state === "waiting" ? request.position : undefined });
    request.start();
    return Object.assign(hold, { raise: (/** @type {number} */ p) => request.raise(priority(p)) });
  }

  /**
   * withLock runs f while it holds a lock, and returns what f does. It releases the lock
   * whatever happens, and rejects with Lost if that was lost before f was done.
   */
  async withLock(name, options, f) {
    if (typeof options === "function") [options, f] = [{}, options];
    if (typeof f !== "function") throw new TypeError("withLock needs a function, which it runs while it holds the lock");
    const hold = await this.lock(name, options);
    try {
      const result = await f(hold);
      hold.check();
      return result;
    } finally {
      await hold.release();
    }
  }

  /** show tells what holds for a lock as a whole. @param {string} name */
  async show(name) {
    const level = lockLevel(name);
    this.#open();
    return new Show(this, name, level).promise;
  }

  #open() {
    if (this.#closed) throw new Denied("closed", "this client was closed: connect again");
  }

  /** close releases what is held, withdraws what waits, and ends the connection. */
  close() { return this.#closing ??= this.#close(); }
  [asyncDispose]() { return this.close(); }

  async #close() {
    this.#closed = true;
    for (const r of this.#living) {
      r.fail(new Denied("closed", "this client was closed while it waited: connect again"));
      r.lose("its client was closed");
      this.settle(r.release());
    }
    await Promise.all(this.#settling);
    await this.#connection.close();
  }

  /** What requests need: an id, a way to send, and somebody who waits for them in the end. */
  adopt(/** @type {Request | Show} */ r) {
    this.#requests.delete(r.id);
    const id = String(++this.#count);
    this.#requests.set(id, r);
    this.#connection.connectSooner();
    return id;
  }

  /** admit reports whether a request may be sent now: servers take so many of one client. forget sends those that had to wait. */
  admit(/** @type {Request} */ r) {
    const sent = this.#living.filter((o) => o.sent && o.level === r.level);
    return r.sent ||= !r.waits || sent.length < MOST;
  }

  forget(/** @type {Request | Show} */ r) {
    if (!this.#requests.delete(r.id)) return;
    const waiting = this.#living.filter((o) => !o.sent && o.level === r.level);
    if (waiting.length > 0) waiting.reduce((first, o) => o.priority < first.priority ? o : first).ask();
  }

  send(/** @type {string} */ lock, /** @type {object} */ request) { return this.#connection.send(lock, request); }

  settle(/** @type {Promise<void>} */ p) {
    this.#settling.add(p);
    p.finally(() => this.#settling.delete(p));
  }

  /** warn says on the console what a server warns of, such as a resource that nobody has declared: once for each lock. */
  warn(/** @type {string} */ lock, /** @type {string} */ text) {
    if (this.#warned.has(lock) || this.#warned.size >= WARNINGS) return;
    this.#warned.add(lock);
    console.warn(`padme-client: ${text}`);
  }

  #message(topic, text) {
    if (topic.startsWith(this.#presence)) {
      if (!this.#servers.heard(topic.slice(this.#presence.length), text)) return;
      this.since = performance.now();
      for (const r of this.#living) r.serversChanged();
    } else if (topic.endsWith(this.#answers)) {
      const answer = parse(text);
      this.#requests.get(answer?.id)?.heard(answer);
    }
  }
}

/** Hold is a lock that is held. */
class Hold {
  #request;

  constructor(/** @type {Request} */ request) {
    this.#request = request;
    this.fence = BigInt(request.fence);
    this.resource = request.resource;
  }

  get signal() { return this.#request.signal; }

  /** check throws Lost unless the lock is held at this instant. */
  check() {
    if (this.#request.valid()) return;
    throw this.#request.why ?? new Lost(`${this.#request.what} was released: lock it again`);
  }

  release() { return this.#request.release(); }
  [asyncDispose]() { return this.release(); }
}
