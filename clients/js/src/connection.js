// One MQTT connection at a time, again and again until it is closed. Each has a client of
// mqtt.js of its own and is a session of its own, so that nothing which was sent before a
// cut is sent again after it, and a last will that comes late ends nothing that is new.
import mqtt from "mqtt";
import { Denied, NoServer } from "./errors.js";
import { random } from "./options.js";

const KEEPALIVE = 5; // s
const CONNECT_TIMEOUT = 10_000; // ms
const CLOSE_TIMEOUT = 1000; // ms
const FIRST_PAUSE = 100, LONGEST_PAUSE = 5000; // ms between two attempts
const REFUSALS = [4, 5]; // codes of MQTT 3.1.1: bad user name or password, not authorized

export class Connection {
  /** session names the connection that is open; undefined while there is none. @type {string | undefined} */
  session;
  /** trouble says why there is no connection. */
  trouble = "";

  #options;
  #events;
  #client;
  #clientId;
  #pause = FIRST_PAUSE;
  #lostAt = 0; // by performance.now()
  #delay = 0; // ms from then to the next attempt, if nothing asks for a shorter pause
  #timer; // of it; undefined: there is a connection, or an attempt
  #closed = false;

  /**
   * @param {ReturnType<import("./options.js").connectOptions>} options
   * @param {{ opened(): void, closed(): void, refused(error: Denied): void, message(topic: string, text: string): void, longestPause(): number }} events
   */
  constructor(options, events) {
    this.#options = options;
    this.#events = events;
    this.#clientId = `${options.level}~${random()}`; // the same again and again: the broker ends the old connection when the new one comes
  }

  /** topics of a client */
  get #own() { return `client/${this.#options.level}`; }
  get answers() { return `${this.#options.root}/lock/+/${this.#own}/answer`; }
  request(/** @type {string} */ lock) { return `${this.#options.root}/lock/${lock}/${this.#own}/request`; }

  /** open makes the first connection, and rejects if that fails. Later ones are made by themselves. */
  async open() {
    const error = await this.#attempt();
    if (!error) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    throw error;
  }

  /** ended: it was closed, and is not opened again */
  get ended() { return this.#closed; }

  /** send publishes a request, and reports false while there is no connection. */
  send(/** @type {string} */ lock, /** @type {object} */ request) {
    if (!this.session) return false;
    this.#client.publish(this.request(lock), JSON.stringify(request), { qos: 1 });
    return true;
  }

  /** close ends the connection in good order, which leaves no last will. */
  async close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    const client = this.#client, open = this.session !== undefined;
    this.session = undefined;
    this.trouble = "this client was closed";
    if (!client) return;
    let late;
    await new Promise((resolve) => {
      late = setTimeout(resolve, CLOSE_TIMEOUT); // what is not acknowledged would keep it open
      client.end(!open, resolve);
    });
    clearTimeout(late);
    client.stream?.destroy();
  }

  /** #attempt makes one connection. It returns undefined once that is open, else what went wrong. */
  #attempt() {
    return new Promise((resolve) => {
      const session = random();
      let problem, client;
      try {
        client = mqtt.connect(this.#options.url, this.#parameters(session));
      } catch (error) { // a URL that mqtt.js cannot use here, such as mqtt:// in a browser
        resolve(this.#failure(error));
        return;
      }
      this.#client = client;
      client.on("error", (error) => { problem ??= error; });
      client.on("message", (topic, payload) => this.#events.message(topic, new TextDecoder().decode(payload)));
      client.on("connect", () => this.#subscribe(client).then(() => this.#opened(client, session, resolve), (error) => {
        problem = error;
        client.end(true);
      }));
      client.once("close", () => {
        client.end(true); // its timers
        const over = (error) => {
          resolve(error);
          this.#lost(client, error);
        };
        if (REFUSALS.includes(problem?.code)) this.#refusal().then(over);
        else over(this.#failure(problem));
      });
    });
  }

  /** @returns {import("mqtt").IClientOptions} */
  #parameters(session) {
    const { username, password, mqtt: more } = this.#options;
    return {
      ...more,
      clientId: this.#clientId, username, password, protocolVersion: 4, clean: true, keepalive: KEEPALIVE,
      connectTimeout: CONNECT_TIMEOUT, reconnectPeriod: 0, resubscribe: false, queueQoSZero: false,
      // The lock topic "gateway" is no lock: what is said there goes for all of the session.
      will: { topic: this.request("gateway"), payload: JSON.stringify({ op: "gone", session }), qos: 1, retain: false },
    };
  }

  /** #subscribe asks for one filter at a time: some brokers end the connection for one that they refuse. */
  async #subscribe(client) {
    try {
      await client.subscribeAsync(this.answers, { qos: 1 });
    } catch (error) {
      if (!client.connected) throw error;
      throw new Denied("not_authorized", `the broker lets this client not read ${this.answers}: at a broker with users the id is the user name`);
    }
    // Without presences it is not known who serves; what is answered is answered all the same.
    await client.subscribeAsync(`${this.#options.root}/presence/+`, { qos: 1 }).catch(() => {});
    if (!client.connected) throw new Error("the connection was closed");
  }

  #opened(client, session, resolve) {
    if (this.#closed) {
      client.end(true);
      return;
    }
    this.session = session;
    this.trouble = "";
    this.#pause = FIRST_PAUSE;
    resolve(undefined);
    this.#events.opened();
  }

  /** #lost tries again later, unless the client was closed or has never been open. */
  #lost(client, error) {
    if (client !== this.#client || this.#closed) return;
    const open = this.session !== undefined;
    this.session = undefined;
    this.trouble = error.message;
    if (open) this.#events.closed();
    if (error instanceof Denied) this.#events.refused(error);
    this.#lostAt = performance.now();
    this.#delay = this.#pause * (0.5 + Math.random() / 2);
    this.#pause = Math.min(1.25 * this.#pause, LONGEST_PAUSE); // so that it stays short beside the outage
    this.#again();
  }

  /** #again makes the next attempt: sooner while something is held or waited for. */
  #again() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#attempt();
    }, Math.max(0, this.#lostAt + Math.min(this.#delay, this.#events.longestPause()) - performance.now()));
  }

  /** connectSooner is called when longestPause may be shorter than before. */
  connectSooner() {
    if (this.#timer !== undefined && !this.#closed) this.#again();
  }

  /** #refusal says why the broker refuses the client. It refuses a last will in the same words as a password. */
  async #refusal() {
    const { url, username, id } = this.#options;
    const who = username === undefined ? "a client without a user" : `user ${JSON.stringify(username)}`, name = JSON.stringify(id);
    if (!await this.#letsInWithoutWill()) return new Denied("not_authorized", `the broker at ${url} refuses ${who}: give username and password, and no id but the user name (it is ${name})`);
    const remedy = id === username ? "give a user with the role client (`pubsub-node broker passwd USERS NAME --role client`)" : `give no id but the user name (it is ${name}), of a user with the role client`;
    return new Denied("not_authorized", `${who} may connect to ${url}, but not lock: ${remedy}`);
  }

  #letsInWithoutWill() {
    return new Promise((resolve) => {
      const client = mqtt.connect(this.#options.url, { ...this.#parameters(""), will: undefined });
      client.on("error", () => {}); // close follows
      client.once("connect", () => {
        resolve(true);
        client.end();
      });
      client.once("close", () => {
        client.end(true);
        resolve(false);
      });
    });
  }

  /** #failure says why a connection could not be made, or was lost. */
  #failure(error) {
    const { url } = this.#options;
    if (error instanceof Denied) return error;
    const why = error?.errors?.[0]?.message || error?.message || "the connection was closed";
    return new NoServer(`no connection to a broker at ${url} (${why}): is "pubsub-node broker" running there, and is this its URL?`);
  }
}
