// Commands: sealed with the key of the run, see package control.

const text = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (s) => Uint8Array.from(s.match(/../g) ?? [], (b) => parseInt(b, 16));

/** newID names a command. */
export const newID = () => hex(crypto.getRandomValues(new Uint8Array(12)));

/** seal returns the message that carries a command, {do, robot?, x?, y?, models?}. */
export async function seal(key, command, id = newID(), at = Date.now()) {
  const body = JSON.stringify({ id, at, ...command });
  const hmac = await crypto.subtle.importKey("raw", unhex(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", hmac, text.encode(body));
  return JSON.stringify({ body, mac: hex(new Uint8Array(mac)) });
}

/** MODELS are the four models, each with its values in the order of their names in "level-forward-forward-forward". */
export const MODELS = [
  { name: "Priority", values: ["level", "fair"] },
  { name: "Request", values: ["forward", "replace"] },
  { name: "Reply", values: ["forward", "use"] },
  { name: "Release", values: ["forward", "use"] },
];

/** switched returns the models with one of them changed; null if the models are unknown. */
export function switched(models, index, value) {
  const all = (models ?? "").split("-");
  if (all.length !== MODELS.length || !MODELS[index].values.includes(value)) return null;
  all[index] = value;
  return all.join("-");
}
