import test from "node:test";
import assert from "node:assert/strict";
import { Rescue } from "../model.js";
import { barAt, barBeside, span, tell, ticks } from "../timeline.js";

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

const stay = (frequency, fence, from, to, robot = "robot-1") => ({ frequency, robot, priority: 5, fence: String(fence), from, to });

function runOf(...stays) {
  const run = new Rescue("radio");
  run.apply(["show", "scene"], JSON.stringify({ start: 0, duration: 60, frequencies: ["A", "B"], ruins: [] }), 0);
  run.apply(["show", "stays"], JSON.stringify(stays), 0);
  return run;
}

test("a click finds the bar that is drawn there, also a thin one", () => {
  const run = runOf(stay("A", 1, 0, 10_000), stay("A", 2, 10_000, 10_001, "robot-2"), stay("A", 3, 10_001, 30_000), stay("B", 7, 20_000, 30_000, "robot-3"));
  const width = 712, x = (ms) => 104 + ms / 100, top = 45, below = top + 38; // 600 pixels for 60 seconds
  const at = (ms, y) => barAt(run, 40_000, width, x(ms), y)?.fence;
  assert.deepEqual([at(5000, top), at(20_000, top), at(25_000, below), at(5000, below), at(35_000, top)], ["1", "3", "7", undefined, undefined]);
  assert.deepEqual([at(30_300, top), at(5000, 10), at(5000, 200)], ["3", undefined, undefined]);
  const thin = runOf(stay("A", 1, 10_000, 10_001));
  assert.equal(barAt(thin, 40_000, width, x(10_000) + 3, top)?.fence, "1");
});

test("arrows lead from bar to bar", () => {
  const run = runOf(stay("A", 1, 0, 10_000), stay("A", 2, 10_000, 20_000), stay("B", 7, 5000, 6000), stay("B", 8, 15_000, 16_000));
  const to = (bar, key) => barBeside(run, 40_000, bar, key)?.fence;
  const one = { frequency: "A", fence: "1", from: 0 }, two = { frequency: "A", fence: "2", from: 10_000 }, seven = { frequency: "B", fence: "7", from: 5000 };
  assert.deepEqual([to(null, "ArrowLeft"), to(two, "ArrowLeft"), to(one, "ArrowLeft"), to(one, "ArrowRight"), to(two, "ArrowRight")], ["2", "1", "1", "2", "2"]);
  assert.deepEqual([to(two, "ArrowDown"), to(one, "ArrowDown"), to(seven, "ArrowUp"), to(seven, "ArrowDown"), to(one, "ArrowUp")], ["7", "7", "1", "7", "1"]);
  assert.equal(to({ frequency: "A", fence: "99", from: 0 }, "ArrowLeft"), "2"); // it is not shown any more
  assert.equal(barBeside(runOf(), 40_000, null, "ArrowLeft"), null);
});

test("a bar knows by what way the robot got the frequency, whoever told of it first", () => {
  const run = runOf(stay("A", 1, 0));
  const event = { event: "granted", topic: "radio", resource: "A", participant: "robot-1", request: "robot-1/1", priority: 5, fence: "1", how: "passing", at: "1970-01-01T00:00:00Z" };
  run.apply(["lock", "radio", "events"], JSON.stringify(event), 1);
  assert.equal(run.bars("A", 10)[0].how, "passing");
});
