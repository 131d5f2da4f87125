// The pictures on the frequencies: samples of package camera in the msgpack
// envelope of docs/topics.md, "Payloads between participants".

const SAMPLE = 4; // the kind of an envelope that carries one

/**
 * readFrame returns the frame in a message, {frequency, robot, fence, number,
 * survivors, picture: Uint8Array}, or null if it is none.
 */
export function readFrame(bytes) {
  try {
    const [version, kind, , , , , options, body] = decode(bytes);
    if (version !== 1 || kind !== SAMPLE || options.s) return null;
    const f = decode(body);
    if (typeof f.Frequency !== "string" || typeof f.Robot !== "string" || !(f.Picture instanceof Uint8Array) || !isFence(f.Fence)) return null;
    return {
      frequency: f.Frequency, robot: f.Robot, fence: String(f.Fence), number: Number(f.Number),
      survivors: Number(f.Survivors), picture: f.Picture,
    };
  } catch {
    return null; // nobody's frame
  }
}

const isFence = (v) => (typeof v === "bigint" || Number.isInteger(v)) && v >= 0;

/** decode returns the one value that bytes are in msgpack, and throws on anything else. */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (reader.at !== bytes.length) throw new RangeError("something follows");
  return value;
}

const DEEPEST = 8;

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  value(depth) {
    if (depth > DEEPEST) throw new RangeError("too deep");
    const b = this.uint(1);
    if (b < 0x80) return b;
    if (b < 0x90) return this.map(b & 15, depth);
    if (b < 0xa0) return this.array(b & 15, depth);
    if (b < 0xc0) return this.text(b & 31);
    if (b >= 0xe0) return b - 256;
    switch (b) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.take(this.uint(1 << (b - 0xc4)));
      case 0xca: return this.number("getFloat32", 4);
      case 0xcb: return this.number("getFloat64", 8);
      case 0xcc: case 0xcd: case 0xce: return this.uint(1 << (b - 0xcc));
      case 0xcf: return this.number("getBigUint64", 8);
      case 0xd0: return this.number("getInt8", 1);
      case 0xd1: return this.number("getInt16", 2);
      case 0xd2: return this.number("getInt32", 4);
      case 0xd3: return this.number("getBigInt64", 8);
      case 0xd9: case 0xda: case 0xdb: return this.text(this.uint(1 << (b - 0xd9)));
      case 0xdc: case 0xdd: return this.array(this.uint(2 << (b - 0xdc)), depth);
      case 0xde: case 0xdf: return this.map(this.uint(2 << (b - 0xde)), depth);
    }
    throw new RangeError("no value begins with " + b);
  }

  // A length is judged by what is there before anything is made of it.
  take(n) {
    if (n > this.bytes.length - this.at) throw new RangeError("too short");
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  number(get, n) {
    this.take(n);
    return this.view[get](this.at - n);
  }

  uint(n) {
    return this.number({ 1: "getUint8", 2: "getUint16", 4: "getUint32" }[n], n);
  }

  text(n) {
    return new TextDecoder("utf-8", { fatal: true }).decode(this.take(n));
  }

  array(n, depth) {
    if (n > this.bytes.length - this.at) throw new RangeError("too short");
    return Array.from({ length: n }, () => this.value(depth + 1));
  }

  map(n, depth) {
    const pairs = [];
    for (let i = 0; i < n; i++) pairs.push([String(this.value(depth + 1)), this.value(depth + 1)]);
    return Object.fromEntries(pairs);
  }
}
