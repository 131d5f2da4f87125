// Topic levels as docs/topics.md has them: bytes to which a broker gives a meaning
// are %XX, everything else stands as it is.

const RESERVED = " .*$+#/>%~";

/** encodeLevel returns a name as one topic level. */
export function encodeLevel(name) {
  let out = "";
  for (const c of name) {
    out += RESERVED.includes(c) ? "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0") : c;
  }
  return out;
}

/**
 * decodeLevel undoes encodeLevel. It returns null for what encodeLevel cannot have
 * made, so that two levels never look like one name.
 */
export function decodeLevel(level) {
  if (level === "" || level.length > 3 * 128) return null;
  const name = level.replace(/%([0-9A-F]{2})/g, (all, hex) => String.fromCharCode(parseInt(hex, 16)));
  return encodeLevel(name) === level ? name : null;
}

/** rootOf is the common beginning of all topics of a domain, without a slash at its end. */
export function rootOf({ prefix, domain }) {
  return `${encodeLevel(prefix)}/v1/${encodeLevel(domain)}`;
}

/** parseTopic returns the decoded levels below root, or null for a topic that is not of the contract. */
export function parseTopic(root, topic) {
  if (!topic.startsWith(root + "/")) return null;
  const levels = topic.slice(root.length + 1).split("/").map(decodeLevel);
  return levels.includes(null) ? null : levels;
}
