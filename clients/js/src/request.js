// One call of lock(): it waits, then it is held, then it is over. docs/clients.md has the
// protocol: requests are repeated until they are answered, and belief in a hold counts
// from the sending of what is answered.
import { Busy, Denied, Lost, NoServer, TimedOut, denial } from "./errors.js";
import { MARGIN, isBefore, later, now } from "./clock.js";

const REPEAT = 1000; // ms after which what is not answered is sent again
const SLOWEST = 5000; // ms after which a release that is not answered is sent again, in the end
const RELEASING = 1000; // ms, the longest pause for which release() waits
const UNHEARD = 1500; // ms for a release of what no server has ever answered
const LEASE = 10_000; // ms, what servers take for a request that names none
const GAP = 200; // ms between two messages of one request that waits, at least
const OFTEN = 50; // ms, the same for a hold, which one that comes too late costs
const RENEWING = 500; // ms after which a renewal that is not answered is sent again, at most
const PATIENCE = 10_000; // ms without an answer and a server, until there is none
const AT_ONCE = 2000; // the same with wait: false
const ARRIVAL = 500; // ms for the presences of servers to arrive on a new connection
const LONGEST_TRY = 30_000; // ms for an answer with wait: false
const LONGEST_WAIT = 86_400_000; // ms, the most that servers take
const STAMPS = 32; // sendings that an answer may be about
const TOO_BUSY = ["overload", "too_many", "too_fast"]; // what is denied for now

export class Request {
  /** @type {"waiting" | "held" | "over"} */
  state = "waiting";
  /** position among those that wait, as far as the servers know; 1 is the next. @type {number | undefined} */
  position;
  id = "";
  /** sent: it has a place among those that a server takes of one client */
  sent = false;

  #client;
  #options;
  #controller = new AbortController();
  #resolve;
  #reject;
  #timer; // of the next message
  #deadline; // timer of the timeout
  #giveUpAt = Infinity; // by performance.now()
  #session = "";
  #stamps = new Map(); // sent → Instant
  #asked = 0; // since when there is no answer, by performance.now()
  #server = ""; // who answered; "": nobody yet
  #known = false; // to a server
  #busy = ""; // what a server said that is too busy
  #until; // Instant: to be believed until then
  #renewAt = 0;
  #ended = false; // at the server
  /** @type {(done?: unknown) => void} */
  #endedHere = () => {};
  #released;
  #onAbort = () => this.#fail(this.#options.signal.reason);

  /** @param {import("./client.js").Client} client @param {ReturnType<import("./options.js").lockOptions>} options */
  constructor(client, options) {
    this.#client = client;
    this.#options = options;
    this.resource = options.resource;
    this.priority = options.priority;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get level() { return this.#options.level; }
  get waits() { return this.#options.wait; }
  get what() { return `${this.#options.lock}/${this.resource}`; }
  /** #patience is how long it waits at most. With a deadline that is soon enough. */
  get #patience() {
    const { wait, timeout, within } = this.#options;
    if (!wait) return LONGEST_TRY;
    return timeout !== undefined && within !== undefined ? Math.min(timeout, within) : timeout ?? within;
  }
  /** #left is for how many ms the hold is valid if nothing more is heard. */
  get #left() { return this.#until.mono - performance.now(); }
  /**
   * longestPause is, in ms, the longest pause between two attempts to connect: some of them fall into
   * what is left of a hold, or of the lease of a request that waits.
   */
  get longestPause() {
    if (this.state === "over") return Infinity;
    return this.state === "held" ? Math.max(2 * OFTEN, this.#left / 8) : Math.max(RENEWING, (this.#options.lease ?? LEASE) / 8);
  }
  get signal() { return this.#controller.signal; }
  get why() { return this.signal.reason; }

  start() {
    const { signal } = this.#options, timeout = this.#patience;
    if (signal?.aborted) {
      this.#fail(signal.reason);
      return;
    }
    signal?.addEventListener("abort", this.#onAbort);
    if (timeout !== undefined) {
      this.#giveUpAt = performance.now() + timeout;
      this.#deadline = setTimeout(() => this.#fail(this.#late(timeout)), timeout);
    }
    this.#begin();
  }

  /** #begin puts the request in line, under an id of its own: an id that has ended never comes back. */
  #begin() {
    this.#stamps.clear();
    this.#until = undefined;
    this.#server = this.#busy = "";
    this.position = undefined;
    this.#session = this.#client.session ?? "";
    this.id = this.#client.adopt(this);
    this.ask();
  }

  #beginIn(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#begin(), ms);
  }

  ask() {
    if (!this.sent) this.#asked = performance.now();
    if (!this.#client.admit(this)) return;
    const { resource, wait, within, hold, lease } = this.#options, left = Math.max(1, Math.ceil(this.#giveUpAt - performance.now()));
    const ms = !wait ? 0 : left <= LONGEST_WAIT ? left : undefined; // what is undefined is not sent
    this.#send("acquire", { resource, priority: this.priority, wait_ms: ms, within_ms: within && left, hold_ms: hold && Math.ceil(hold), lease_ms: lease && Math.round(lease), renews: true });
    this.#in(this.#again());
  }

  /** #again is after how many ms a request that waits is sent again, before its lease ends. */
  #again() { return Math.min(REPEAT, (this.#options.lease ?? Infinity) / 3); }

  #send(op, more = {}) {
    if (!this.#session) return;
    const at = now(), sent = Math.floor(at.mono);
    if (!this.#client.send(this.#options.level, { op, id: this.id, session: this.#session, sent, ...more })) return;
    if (!this.#stamps.has(sent)) this.#stamps.set(sent, at);
    if (this.#stamps.size > STAMPS) this.#stamps.delete(this.#stamps.keys().next().value);
  }

  #in(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#tick(), ms);
  }

  #tick() {
    if (this.state === "waiting" && this.#cutOff()) this.#fail(new NoServer(`${this.what} cannot be asked for, as the connection is down: ${this.#client.trouble}`));
    else if (this.state === "waiting" && this.#nobody()) this.#fail(new NoServer(`nobody at ${this.#client.url} serves ${this.what}: start "pubsub-node broker" or "pubsub-node serve"`));
    else if (this.state === "waiting") this.ask();
    else if (this.state === "held" && this.valid()) this.#renew();
  }

  /** #nobody reports that nobody serves, for too long to be on its way back. */
  #nobody() {
    if (!this.#session || this.#server || this.#busy || this.#client.servers.length > 0) return false;
    return performance.now() - Math.max(this.#asked, this.#client.since) > (this.#options.wait ? PATIENCE : AT_ONCE);
  }

  /** #cutOff reports that there is no connection, for too long for whom it is now or not at all. */
  #cutOff() { return !this.waits && !this.#client.session && performance.now() - this.#asked > AT_ONCE; }

  #renew() {
    const at = performance.now();
    if (at >= this.#renewAt) {
      this.#renewAt = at + Math.min(RENEWING, Math.max(OFTEN, this.#left / 4)); // again, if that is not answered: ever sooner until the hold ends
      this.#send("renew");
    }
    this.#in(Math.max(1, Math.min(this.#renewAt, this.#until.mono) - at));
  }

  /** heard takes an answer about this request. */
  heard(a) {
    if (a.session !== this.#session) return;
    if (typeof a.warning === "string") this.#client.warn(this.level, a.warning);
    if (this.state === "over") this.#heardOver(a);
    else if (this.state === "waiting") this.#heardWaiting(a);
    else this.#heardHeld(a);
  }

  /** #heardOver waits for the word that the request has ended, however that came about. */
  #heardOver(a) {
    if (a.outcome === "granted" || a.outcome === "waiting" || a.outcome === "denied" && (a.op !== "release" || TOO_BUSY.includes(a.reason))) return;
    this.#ended = true;
    this.#endedHere();
  }

  #heardWaiting(a) {
    this.#server = a.gateway ?? "?";
    this.#known = true;
    switch (a.outcome) {
      case "waiting":
        this.#busy = "";
        this.position = a.position;
        if (a.priority > this.priority && a.op !== "raise") this.#send("raise", { priority: this.priority });
        this.#in(Math.max(GAP, (a.valid_ms ?? 0) / 3));
        break;
      case "granted":
        if (/^\d{1,20}$/.test(a.fence)) this.#enter(a);
        break;
      case "denied":
        this.#denied(a);
        break;
      case "lost": // also when another server has taken over
        if (a.reason === "gone") { // no last will names the session of a connection that is open
          this.#ended = true;
          this.#fail(new Denied("gone", `${this.what} is not waited for any more: an operator ended the request`));
          break;
        } // falls through
      case "expired":
      case "released":
        this.#beginIn(GAP / 2);
    }
  }

  /**
   * #denied: what a server is too busy for, or not ready for, is asked again, everything else
   * is final. Servers may take the waiting for over too early.
   */
  #denied(a) {
    if (a.op && a.op !== "acquire") return;
    if (a.reason === "not_ready" && this.#options.wait) {
      this.#busy = a.detail || "the server is not ready";
      this.#beginIn(this.#again());
    } else if (!TOO_BUSY.includes(a.reason)) {
      this.#ended = true;
      this.#fail(a.reason === "wait_over" || a.reason === "missed" ? this.#late(this.#patience) : denial(this.what, a, this.#options.wait));
    } else if (this.#options.wait) {
      this.#busy = a.detail ?? a.reason;
      this.#in(this.#again() * (1 + Math.random()));
    } else {
      this.#fail(new Busy(`${this.what}: ${a.detail ?? "the server is busy"}: try again later`));
    }
  }

  #enter(a) {
    if (a.fence !== this.fence) this.#until = undefined; // what is believed of one entry says nothing of the next
    this.resource = a.resource ?? this.resource;
    this.fence = a.fence;
    this.#believe(a);
    if (!this.valid(false)) { // it came late: what is sent now counts from now
      this.#in(GAP);
      return;
    }
    this.state = "held";
    this.#stop();
    this.#resolve(this);
    this.#renew();
  }

  #heardHeld(a) {
    if (a.outcome === "granted" && a.fence === this.fence) {
      this.#believe(a);
      this.#renew();
    } else if (a.outcome !== "denied" && a.outcome !== "waiting") { // what waits is another server's word, such as one that stands by; time tells
      this.#ended = a.outcome !== "granted"; // that is of another fence: another server has taken the request for a new one
      this.lose(a.reason === "gone" ? "the server was told that this client has gone" : `the server says: ${a.detail || a.reason || a.outcome}`);
    }
  }

  /** #believe counts from the sending of what is answered, so that time on the way makes it shorter and never longer. */
  #believe({ sent, valid_ms: ms }) {
    const at = this.#stamps.get(sent);
    if (!at || !(ms >= 0)) return;
    const until = later(at, ms - MARGIN);
    if (!this.#until || until.mono > this.#until.mono) this.#until = until;
    this.#renewAt = Math.max(at.mono + ms / 3, performance.now() + OFTEN);
  }

  /** valid reports whether the hold is good at this instant. One that is over stays so. */
  valid(lose = true) {
    if (this.state === "over") return false;
    const good = this.#until !== undefined && isBefore(now(), this.#until);
    if (!good && lose) this.lose(this.#client.trouble ? `the connection is down: ${this.#client.trouble}` : "no renewal was answered in time: the process, the network or the server was too slow");
    return good;
  }

  /** lose ends a hold that its holder has not released. The server keeps it until that one does, or its lease ends. */
  lose(why) {
    if (this.state !== "held") return;
    this.#over();
    this.#controller.abort(new Lost(`the hold of ${this.what} with fence ${this.fence} is lost (${why}): stop what it protects, then lock again`));
  }

  /** raise makes a waiting request more important. */
  raise(priority) {
    if (priority > this.priority) throw new RangeError(`priority ${priority} is less important than ${this.priority}: abort the request and lock again`);
    if (this.state !== "waiting" || priority === this.priority) return;
    this.priority = priority;
    this.#send("raise", { priority });
  }

  /** reopened is called with each new connection: the last will of the old one ends what waited there. */
  reopened() {
    if (this.state === "waiting") {
      if (this.#session) this.#send("release");
      this.#begin();
    } else if (this.state === "held") {
      this.#renewAt = 0;
      this.#tick();
    } else {
      this.#send("release");
    }
  }

  /** serversChanged is called when a server comes or goes: another one may have to be asked. */
  serversChanged() {
    if (this.state !== "waiting" || !this.#session) return;
    if (this.#server && !this.#client.servers.includes(this.#server)) this.#server = "";
    this.ask();
  }

  /** release gives the lock back, and returns when the server has heard it, or after a while. It never rejects. */
  release() {
    this.#over();
    return this.#released ??= new Promise((resolve) => void this.#tellReleased(resolve));
  }

  /**
   * #tellReleased repeats it, ever more slowly, until the server has heard it or the lease is
   * over. Whoever releases waits for the first answers only, which done says.
   */
  async #tellReleased(/** @type {(value?: void) => void} */ done) {
    const over = performance.now() + (this.#known ? this.#options.lease ?? LEASE : UNHEARD);
    for (let pause = REPEAT / 2; this.#says && performance.now() < over; pause = Math.min(2 * pause, SLOWEST)) {
      this.#send("release");
      /** @type {any} */
      let timer; // a number in browsers
      const heard = new Promise((resolve) => {
        this.#endedHere = resolve;
        timer = setTimeout(resolve, Math.min(pause, Math.max(0, over - performance.now())));
      });
      if (pause > RELEASING) {
        done();
        timer.unref?.(); // no reason for a process to go on
      }
      await heard;
      clearTimeout(timer);
    }
    done();
    this.#client.forget(this);
  }

  /** #says: there is still somebody to tell that this is released. */
  get #says() { return !this.#ended && this.#session !== "" && !this.#client.ended; }

  /** #fail ends a request that waits, and withdraws it. */
  #fail(error) {
    if (this.state !== "waiting") return;
    this.#ended ||= !this.sent;
    this.#over();
    this.#reject(error);
    this.#client.settle(this.release());
  }
  fail(error) { this.#fail(error); }

  #late(ms) {
    const after = `${this.what} was not to be had within ${ms} ms`;
    if (!this.#client.session) return new TimedOut(`${after}, as the connection is down: ${this.#client.trouble}`);
    if (!this.sent) return new TimedOut(`${after}, as other requests of this client come first: give a longer timeout, or a smaller priority`);
    if (this.#busy) return new TimedOut(`${after}: ${this.#busy}: try again later`);
    if (this.#server) return new TimedOut(`${after}${this.position ? `: it is number ${this.position} in line` : ""}: give a longer timeout, or a smaller priority`);
    if (this.#client.servers.length > 0) return new TimedOut(`${after}: no answer from ${this.#client.servers.join(", ")}, which is busy or does not hear this client: give a longer timeout, and look whether access rules of the broker let this client ask`);
    if (performance.now() - this.#client.since < ARRIVAL) return new TimedOut(`${after}: give a longer timeout`);
    return new NoServer(`${after}, as nobody at ${this.#client.url} serves it: start "pubsub-node broker" or "pubsub-node serve"`);
  }

  /** #stop ends what is for waiting only. */
  #stop() {
    clearTimeout(this.#deadline);
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
  }

  #over() {
    this.state = "over";
    clearTimeout(this.#timer);
    this.#stop();
  }
}
