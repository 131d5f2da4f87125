import test from "node:test";
import assert from "node:assert/strict";
import { readLetter } from "../letters.js";

// As a participant sent them: one entry to crane/north by "lift".
const letters = {
  request: "980101cf000660cb8e9ad4d100000081a163c40a6c6f636b2f6372616e65c457dc0016010100a46c696674cf000660cb8e9adb3ea962726f6b65722d766dcf000660cb1813b3c8cf000660cb18140000cf8da4bfbb4fa3a54501020002a46c696674cf000660cb8e9adb3e0264a56e6f72746801000000",
  reply: "980101cf000660cb18045f7b00000081a163c40a6c6f636b2f6372616e65c482dc0019010200a962726f6b65722d766dcf000660cb1813b3c8a46c696674cf000660cb8e9adb3ecf000660cb18140000cf8da4bfbb4fa3a54501010202a46c696674cf000660cb8e9adb3e0264a56e6f727468cf000660cb18140000cf8da4bfbb4fa3a54502cf000660cb184b917ecf000660cb184b917fcf0cc196302800000290",
  release: "980101cf000660cb8e9ad4d100000081a163c40a6c6f636b2f6372616e65c491dc0017010300a46c696674cf000660cb8e9adb3ea962726f6b65722d766dcf000660cb1813b3c8cf000660cb18140000cf8da4bfbb4fa3a54501030102a46c696674cf000660cb8e9adb3e02a56e6f727468cf000660cb18140000cf8da4bfbb4fa3a54502cf000660cb184b917fcf000660cb184b917f9194a46c696674cf000660cb8e9adb3e02cf000660cb184b917e",
};
const others = [
  "980101cf000660cb18045f7b00000081a163c40a6c6f636b2f6372616e65c459dc0014011400a962726f6b65722d766dcf000660cb1813b3c8a962726f6b65722d766dcf000660cb1813b3c8cf000660cb18140000cf8da4bfbb4fa3a5450000000100cf0000361ab19bf8ae00d38000000000000000a00090",
  "980102cf000660cb8e9ad4d100000080c400",
  "980101cf000660cb18045f7b00000081a163c40a6c6f636b2f6372616e65c472dc0015010e30a962726f6b65722d766dcf000660cb1813b3c8a46c696674cf000660cb8e9adb3ecf000660cb18140000cf8da4bfbb4fa3a54500000001a962726f6b65722d766dcf000660cb1813b3c8d3800000000000000000a000009192a962726f6b65722d766dcf000660cb1813b3c8",
];
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));

test("requests, replies and releases are recognized", () => {
  for (const [kind, hex] of Object.entries(letters)) {
    assert.deepEqual(readLetter(bytes(hex)), { topic: "crane", kind, origin: "lift", resource: "north" });
  }
});

test("other letters are not", () => {
  for (const hex of others) assert.equal(readLetter(bytes(hex)), null);
});

test("what is cut short or broken is nothing, and throws nothing", () => {
  for (const hex of Object.values(letters)) {
    const whole = bytes(hex);
    for (let n = 0; n < 80; n++) assert.equal(readLetter(whole.subarray(0, n)), null);
    for (let at = 0; at < whole.length; at++) {
      for (const to of [0, 0x7f, 0x90, 0xc4, 0xdd, 0xdf, 0xff]) {
        const broken = whole.slice();
        broken[at] = to;
        readLetter(broken);
      }
    }
  }
});

test("a claimed length costs no memory", () => {
  const claim = Uint8Array.from([0xdd, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1, 1, 1, 0xdf, 0xff, 0xff, 0xff, 0xff]);
  assert.equal(readLetter(claim), null);
});
