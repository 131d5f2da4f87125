import test from "node:test";
import assert from "node:assert/strict";
import { decode, readFrame } from "../frame.js";

const bytes = (hex) => Uint8Array.from(hex.replaceAll(" ", "").match(/../g) ?? [], (b) => parseInt(b, 16));

// What TestThePageReadsFramesFromTheWire prints.
const WIRE = "980104cf000660cb59ce8ccb01cf18ea1a56d46c33c1cfacd8c1fb17c50a4380c45086a94672657175656e6379a73134362e353230a5526f626f74a7726f626f742d33a546656e6365cf0020000000000001a64e756d62657204a95375727669766f727302a750696374757265c403010203";

test("a frame is read as Go wrote it", () => {
  const f = readFrame(bytes(WIRE));
  assert.deepEqual({ ...f, picture: [...f.picture] }, { frequency: "146.520", robot: "robot-3", fence: "9007199254740993", number: 4, survivors: 2, picture: [1, 2, 3] });
});

test("a frame whose fence is no integer is none", () => {
  const fence = "cf0020000000000001";
  assert.ok(WIRE.includes(fence));
  for (const other of ["cb3ff8000000000000", "c0", "a178", "ff", "80"]) assert.equal(readFrame(bytes(WIRE.replace(fence, other))), null, other);
});

test("values", () => {
  for (const [hex, want] of [["07", 7], ["ff", -1], ["c0", null], ["c3", true], ["cd0100", 256], ["d1ff00", -256], ["a26869", "hi"], ["d9026869", "hi"],
    ["9201c2", [1, false]], ["81a16101", { a: 1 }], ["cf0020000000000001", 9007199254740993n], ["cb3ff8000000000000", 1.5], ["dc000107", [7]], ["de0001a16107", { a: 7 }]]) {
    assert.deepEqual(decode(bytes(hex)), want, hex);
  }
});

test("what is cut off, too deep or too long by its own words is no frame", () => {
  const whole = bytes(WIRE);
  for (let n = 0; n < whole.length; n++) assert.equal(readFrame(whole.subarray(0, n)), null, `${n} bytes`);
  for (const hex of ["", "c1", "dfffffffff", "ddffffffff", "c6ffffffff00", "91".repeat(100) + "00", "a2ffff", "0707", "98010400000000 80 c0"]) {
    assert.equal(readFrame(bytes(hex)), null, hex);
  }
});
