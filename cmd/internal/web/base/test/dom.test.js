import test from "node:test";
import assert from "node:assert/strict";
import { span, visible } from "../dom.js";

test("durations are short and monotonous", () => {
  for (const [ms, text] of [[-5, "0.0s"], [400, "0.4s"], [9960, "9.9s"], [10000, "10s"], [12300, "12s"], [59999, "59s"], [60000, "1m00s"],
    [185000, "3m05s"], [3599999, "59m59s"], [7620000, "2h07m"], [86400000, "1d00h"], [273600000, "3d04h"]]) {
    assert.equal(span(ms), text);
  }
});

test("what cannot be seen is written as an escape, what can be is left alone", () => {
  for (const [name, text] of [["crane", "crane"], ["Grúa 起重機 مرفاع 🏗️", "Grúa 起重機 مرفاع 🏗️"], ["\u202enarc", "\\u{202e}narc"],
    ["a\u200bb", "a\\u{200b}b"], ["\u009b31m", "\\u{9b}31m"], ["\u2028", "\\u{2028}"], ["\u{e0041}", "\\u{e0041}"], ["\ud800", "\\u{d800}"],
    ["gate north", "gate north"], ["gate\u00a0north\u3000", "gate\\u{a0}north\\u{3000}"]]) {
    assert.equal(visible(name), text);
    assert.equal(visible(visible(name)), text);
  }
});
