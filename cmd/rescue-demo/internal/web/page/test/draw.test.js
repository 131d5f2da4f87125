import test from "node:test";
import assert from "node:assert/strict";
import { hull, shadowOf } from "../geometry.js";
import { base64, called, doing } from "../panels.js";
import { seal, change } from "../command.js";

const inside = (polygon, [x, y]) => polygon.every((a, i) => {
  const b = polygon[(i + 1) % polygon.length];
  return (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) >= 0;
});

test("a shadow is the ruin and what is behind it, and nothing before it", () => {
  const shadow = shadowOf([10, -5, 20, 5], [0, 0]);
  for (const p of [[15, 0], [100, 0], [200, 90], [12, 4]]) assert.ok(inside(shadow, p), p);
  for (const p of [[5, 0], [-50, 0], [15, 20], [100, 60], [0, 0]]) assert.ok(!inside(shadow, p), p);
});

test("a hull drops what is inside", () => {
  assert.deepEqual(hull([[0, 0], [2, 0], [1, 1], [2, 2], [0, 2]]), [[0, 0], [2, 0], [2, 2], [0, 2]]);
});

test("what a robot does is said in words", () => {
  assert.equal(doing({}, "", false), "searches");
  assert.equal(doing({ shadow: true }, "", true), "in shadow, waits");
  assert.equal(doing({ paused: true, cut: true, shadow: true }, "146.520", true), "paused, radio cut, has 146.520");
  assert.equal(doing({}, "146.520", false), "sends on 146.520");
  assert.equal(doing({ dead: true, cut: true }, "", true), "dead");
  assert.equal(doing({ dead: true }, "146.520", true, false), "not known");
});

test("who is no robot is called by name", () => {
  assert.equal(called("robot-3", ""), "robot 3");
  assert.equal(called("esp32", "gate"), "esp32 (via gate)");
  assert.equal(called("robot-3", "gate"), "robot-3 (via gate)");
  assert.equal(called("center", ""), "center");
});

test("pictures become text", () => assert.equal(base64(new Uint8Array([255, 0, 1])), "/wAB"));

test("a command changes one of the models", () => {
  assert.deepEqual(change("level-replace-use-use", 0, "fair"), { do: "models", model: "priority", from: "level", to: "fair" });
  assert.deepEqual(change("level-replace-use-use", 3, "forward"), { do: "models", model: "release", from: "use", to: "forward" });
  assert.deepEqual(change("level-replace-use-use", 3, "retain"), { do: "models", model: "release", from: "use", to: "retain" });
  assert.deepEqual(change("level-replace-use-retain", 3, "direct"), { do: "models", model: "release", from: "retain", to: "direct" });
  assert.equal(change("level-replace-use-use", 1, "use"), null);
  assert.equal(change("level-replace-use-use", 0, "level"), null);
  assert.equal(change(undefined, 0, "fair"), null);
});

// The same key, command and seal as in control's TestSealOfThePage.
test("a command is sealed as Go seals it", async () => {
  const text = await seal("00010203", { do: "pause", robot: "robot-3" }, "0123456789", 1700000000000);
  assert.deepEqual(JSON.parse(text), {
    body: '{"id":"0123456789","at":1700000000000,"do":"pause","robot":"robot-3"}',
    mac: "9af33dfa9b5e51c25f1c5618521f51c06c7a0048d4d910bcdab0d2019216b77d",
  });
});
