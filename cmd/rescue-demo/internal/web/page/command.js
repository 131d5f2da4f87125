// Commands: sealed with the key of the run, see package control.

const text = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (s) => Uint8Array.from(s.match(/../g) ?? [], (b) => parseInt(b, 16));

/** newID names a command. */
export const newID = () => hex(crypto.getRandomValues(new Uint8Array(12)));

/** seal returns the message that carries a command, {do, robot?, x?, y?, model?, from?, to?}. */
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
  { name: "Release", values: ["forward", "use", "retain", "direct"] },
];

/**
 * change returns the command that changes one of the models from what it was when models were
 * in force; null if they are unknown, or it is so already. It names the one only: another
 * may be changed at the same time.
 */
export function change(models, index, to) {
  const all = (models ?? "").split("-"), { name, values } = MODELS[index];
  if (all.length !== MODELS.length || !values.includes(to) || all[index] === to) return null;
  return { do: "models", model: name.toLowerCase(), from: all[index], to };
}
