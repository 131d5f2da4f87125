// Distributed locks over MQTT: see README.md.
export { connect } from "./src/client.js";
export { ANY } from "./src/options.js";
export { LockError, Busy, TimedOut, Lost, Denied, NoServer } from "./src/errors.js";
