// Letters between participants, as docs/topics.md has them: as much msgpack as it
// takes to see which lock message a letter carries.

const KINDS = [, "request", "reply", "release"];
const LETTER = 1; // kind of envelope
const HEADER = 13; // elements before the fields of a kind

/**
 * readLetter returns {topic, kind, resource, origin} of a Request, Reply or Release,
 * and null for every other letter and whatever is none.
 */
export function readLetter(bytes) {
  try {
    const [version, kind, , , , , options, body] = new Reader(bytes).array(8);
    const channel = options?.c && text(options.c);
    if (version !== 1 || kind !== LETTER || !channel?.startsWith("lock/") || !(body instanceof Uint8Array)) return null;
    const what = KINDS[new Reader(body).peekSecond()];
    if (!what) return null;
    const m = new Reader(body).array(HEADER + 5);
    const resource = what === "release" ? m[HEADER + 3] : m[HEADER + 4];
    return { topic: channel.slice(5), kind: what, origin: text(m[HEADER]), resource: text(resource) };
  } catch {
    return null; // cut short, or of another making
  }
}

const utf8 = new TextDecoder();
const text = (v) => (typeof v === "string" ? v : v instanceof Uint8Array ? utf8.decode(v) : "");

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  /** array reads an array as far as its most-th element. */
  array(most) {
    const n = Math.min(this.arrayLength(), most);
    return Array.from({ length: n }, () => this.value(0));
  }

  /** peekSecond is the second element of an array that starts with two small integers. */
  peekSecond() {
    this.arrayLength();
    this.value(0);
    return this.value(0);
  }

  arrayLength() {
    const c = this.uint(1);
    if (c >= 0x90 && c <= 0x9f) return c & 0x0f;
    if (c === 0xdc) return this.uint(2);
    if (c === 0xdd) return this.uint(4);
    throw new RangeError("no array");
  }

  uint(size) {
    const at = this.at;
    this.at += size;
    return size === 1 ? this.view.getUint8(at) : size === 2 ? this.view.getUint16(at) : this.view.getUint32(at);
  }

  // Integers of eight bytes are skipped: nothing here needs one.
  skip(size) {
    this.at += size;
    return null;
  }

  slice(size) {
    if (this.at + size > this.bytes.length) throw new RangeError("cut short");
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  value(depth) {
    if (depth > 8) throw new RangeError("too deep");
    const c = this.uint(1);
    const list = (n) => Array.from({ length: Math.min(n, this.bytes.length) }, () => this.value(depth + 1));
    const map = (n) => Object.fromEntries(Array.from({ length: Math.min(n, this.bytes.length) }, () => [text(this.value(depth + 1)), this.value(depth + 1)]));
    if (c < 0x80) return c;
    if (c < 0x90) return map(c & 0x0f);
    if (c < 0xa0) return list(c & 0x0f);
    if (c < 0xc0) return utf8.decode(this.slice(c & 0x1f));
    if (c >= 0xe0) return c - 0x100;
    switch (c) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.slice(this.uint(1));
      case 0xc5: return this.slice(this.uint(2));
      case 0xc6: return this.slice(this.uint(4));
      case 0xcc: return this.uint(1);
      case 0xcd: return this.uint(2);
      case 0xce: return this.uint(4);
      case 0xd0: return this.skip(1);
      case 0xd1: return this.skip(2);
      case 0xd2: case 0xca: return this.skip(4);
      case 0xcf: case 0xd3: case 0xcb: return this.skip(8);
      case 0xd9: return utf8.decode(this.slice(this.uint(1)));
      case 0xda: return utf8.decode(this.slice(this.uint(2)));
      case 0xdb: return utf8.decode(this.slice(this.uint(4)));
      case 0xdc: return list(this.uint(2));
      case 0xdd: return list(this.uint(4));
      case 0xde: return map(this.uint(2));
      case 0xdf: return map(this.uint(4));
    }
    throw new RangeError("an extension");
  }
}
