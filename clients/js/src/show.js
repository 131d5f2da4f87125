// The question what holds for a lock as a whole. It leaves nothing at a server.
import { Busy, NoServer, denial } from "./errors.js";

const REPEAT = 1000; // ms after which what is not answered is sent again
const PATIENCE = 10_000; // ms without an answer
const NOT_NOW = ["overload", "too_many", "too_fast"]; // what is denied for now

export class Show {
  sent = false; // it takes no place at a server
  priority = Infinity;
  longestPause = PATIENCE / 8; // ms, the longest pause between two attempts to connect

  #client;
  #lock;
  #busy = "";
  #end = performance.now() + PATIENCE;
  #timer;
  #resolve;
  #reject;

  /** @param {import("./client.js").Client} client @param {string} lock @param {string} level */
  constructor(client, lock, level) {
    this.#client = client;
    this.#lock = lock;
    this.level = level;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.id = client.adopt(this);
    this.ask();
  }

  ask() {
    if (performance.now() >= this.#end) {
      this.fail(this.#nobody());
      return;
    }
    this.#client.send(this.level, { op: "show", id: this.id, session: this.#client.session });
    this.#timer = setTimeout(() => this.ask(), REPEAT);
  }

  #nobody() {
    const { session, servers, trouble, url } = this.#client;
    if (!session) return new NoServer(`${this.#lock} cannot be asked about, as the connection is down: ${trouble}`);
    if (this.#busy || servers.length > 0) return new Busy(`${this.#lock} cannot be asked about now: ${this.#busy || `no answer from ${servers.join(", ")}`}: try again later`);
    return new NoServer(`nobody at ${url} serves ${this.#lock}: start "pubsub-node broker" or "pubsub-node serve"`);
  }

  /** heard takes an answer about this question. */
  heard(a) {
    if (a.outcome === "shown") {
      this.#over();
      this.#resolve({ models: a.models, resources: a.resources ?? [], open: a.open === true, ttl: a.ttl_ms });
    } else if (a.outcome === "denied" && NOT_NOW.includes(a.reason)) this.#busy = a.detail || "the server is busy";
    else if (a.outcome === "denied") this.fail(denial(this.#lock, a, true));
  }

  #over() {
    clearTimeout(this.#timer);
    this.#client.forget(this);
  }

  /** What the client has requests do; this one has nothing to lose or release. */
  fail(error) {
    this.#over();
    this.#reject(error);
  }
  reopened() {}
  serversChanged() {}
  lose() {}
  release() { return Promise.resolve(); }
}
