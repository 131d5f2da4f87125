/**
 * parse reads a JSON object. Anybody may write to a broker: what is none is undefined.
 * @returns {Record<string, any> | undefined}
 */
export function parse(/** @type {string} */ text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : undefined;
  } catch {
    return undefined;
  }
}
