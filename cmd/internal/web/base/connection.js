// The page's MQTT connection: one client of the broker like any other.
import mqtt from "./mqtt.esm.js";

const RETRY = 1000; // ms between two attempts
const LOOK = 1000; // ms between two looks at whether the broker is there
const QUIET = 2000; // ms without a packet after which the broker is asked for one
const SILENT = 2000; // ms without an answer after which it is taken to be silent
const BAD_PASSWORD = 4, NOT_AUTHORIZED = 5; // codes of MQTT 3.1.1

/**
 * loadConfig fetches what the serving command says: {prefix, domain, url, user,
 * page}. An empty url means the bridge of the command itself.
 */
export async function loadConfig() {
  const config = await (await fetch("/config.json")).json();
  if (!config.url) {
    const url = new URL("/mqtt", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    config.url = url.href;
  }
  return config;
}

/**
 * connect keeps a connection to the broker until close() is called.
 *
 * filters: what to subscribe to, {filter: qos}, again on each connection; listen() and
 *   ignore() change it while it runs.
 * onMessage(topic, payload: Uint8Array, retained) gets each message.
 * onStatus({state, text, session, heard}) gets each change. state is "connecting",
 *   "connected", "silent" (connected, but the broker does not answer), "offline" or
 *   "refused"; session counts connections, so that a page can tell what it was told
 *   before the last one; heard is when the broker last sent anything, ms since 1970.
 * onRefused(filter) names a subscription that the broker does not grant.
 * askPassword() is asked for a password when the broker wants one; it returns a promise.
 */
export function connect(config, { filters, onMessage, onStatus, onRefused = () => {}, askPassword }) {
  const wanted = new Map(Object.entries(filters));
  let client, session = 0, password, closed = false, refused = false;
  let heard = 0, asked = 0, state; // asked: when for a packet that has not come yet, or 0

  function tell(now, text) {
    state = now;
    onStatus({ state, text, session, heard });
  }

  function hear() {
    heard = Date.now();
    asked = 0;
    if (state === "silent") tell("connected", "connected");
  }

  // look asks a broker that says nothing for a sign of life. It is not the keep-alive of
  // MQTT, which a page in the background would miss.
  function look() {
    const now = Date.now();
    if (state !== "connected" || now - heard < QUIET) return;
    if (asked === 0) {
      asked = now;
      client.sendPing();
    } else if (now - asked >= SILENT) {
      tell("silent", "no answer from the broker");
    }
  }
  const looking = setInterval(look, LOOK);

  function open() {
    refused = false;
    tell("connecting", "connecting");
    client = mqtt.connect(config.url, {
      clientId: (config.user ? config.user + "~" : "") + "web-" + random(),
      username: config.user || undefined,
      password,
      protocolVersion: 4,
      clean: true,
      keepalive: 10,
      connectTimeout: 5000,
      reconnectPeriod: RETRY,
      resubscribe: false, // subscribe() does, and looks at the answers
      timerVariant: "native", // its workers are not allowed by our content security policy
      queueQoSZero: false,
    });
    client.on("packetreceive", hear);
    client.on("connect", connected);
    client.on("message", (topic, payload, packet) => {
      try {
        onMessage(topic, payload, packet.retain);
      } catch (error) {
        console.error(topic, error); // thrown on, it would have the client read nothing more
      }
    });
    client.on("close", () => closed || refused || tell("offline", "no connection, trying again"));
    client.on("error", failed);
  }

  function connected() {
    session++;
    heard = Date.now();
    asked = 0;
    tell("connected", "connected");
    for (const [filter, qos] of wanted) subscribe(filter, qos);
  }

  // One filter at a time: some brokers end the connection for one that they refuse.
  function subscribe(filter, qos) {
    client.subscribe(filter, { qos }, (error, granted) => {
      if (!closed && client.connected && (error || granted?.some((g) => g.qos > 2))) onRefused(filter);
    });
  }

  // failed hears of sockets, which come again by themselves, and of refusals, which do not.
  async function failed(error) {
    if (typeof error.code !== "number" || closed) return;
    refused = true;
    client.end(true);
    if (error.code !== BAD_PASSWORD && error.code !== NOT_AUTHORIZED) {
      tell("refused", `the broker refuses: ${error.message}`);
      setTimeout(() => closed || open(), RETRY);
      return;
    }
    tell("refused", "the broker refuses " + (config.user ? `user ${config.user}` : "visitors without a user"));
    if (!askPassword || !config.user) return;
    password = await askPassword(config.user);
    if (password !== null && !closed) open();
  }

  open();
  return {
    listen(filter, qos = 0) {
      if (wanted.has(filter)) return;
      wanted.set(filter, qos);
      if (client.connected) subscribe(filter, qos);
    },
    ignore(filter) {
      if (wanted.delete(filter) && client.connected) client.unsubscribe(filter);
    },
    publish: (topic, payload, options = {}) => client.publish(topic, payload, { qos: 1, ...options }),
    close() {
      closed = true;
      clearInterval(looking);
      client.end(true);
    },
  };
}

function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (b) => b.toString(16).padStart(2, "0")).join("");
}
