import test from "node:test";
import assert from "node:assert/strict";
import { span, tell, ticks } from "../timeline.js";

test("a short run is shown whole, of a long one the last part", () => {
  const scene = { start: 1000, duration: 60 };
  assert.deepEqual(span(scene, 5000), { from: 1000, to: 61_000 });
  const long = { start: 1000, duration: 3600 };
  assert.deepEqual(span(long, 5000), { from: 1000, to: 121_000 });
  const late = span(long, 600_000);
  assert.ok(late.from < 600_000 && 600_000 < late.to && late.to - late.from === 120_000);
  assert.equal(span(long, 99_000_000).to, 3_601_000);
});

test("ticks are round and not too many", () => {
  const scene = { start: 1000 };
  assert.deepEqual(ticks(scene, 1000, 61_000, 6), [0, 10, 20, 30, 40, 50, 60]);
  assert.deepEqual(ticks(scene, 6500, 21_000, 5), [10, 15, 20]);
  assert.ok(ticks(scene, 1000, 3_601_000, 12).length <= 13);
});

test("the timeline is told in words", () => {
  const run = { incidents: { all: [{ kind: "killed", who: "robot-1", at: 13_000 }] }, scene: { start: 1000, frequencies: ["146.520", "446.000"] }, bars: (f) => (f === "146.520" ? [{ robot: "robot-3" }, { robot: "robot-1" }] : []) };
  assert.equal(tell(run, 0), "146.520 MHz, the last in order: robot 3, robot 1. 446.000 MHz, the last in order: nobody. robot-1 was killed at 0:12");
});
