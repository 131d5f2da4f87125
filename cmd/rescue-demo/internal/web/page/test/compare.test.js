import test from "node:test";
import assert from "node:assert/strict";
import { together } from "../both.js";
import { HEADINGS, alike, compare } from "../differences.js";
import { Rescue } from "../model.js";

const figures = (...classes) => ({ classes: classes.map((c) => ({ entries: 0, airtime: 0, waitP50: 0, waitP99: 0, waitMax: 0, inVain: 0, ...c })) });

test("the difference is the second run less the first", () => {
  const rows = compare(
    figures({ entries: 1, airtime: 1.5, waitP50: 9, waitP99: 9, waitMax: 9, inVain: 30 }, {}, { entries: 2, waitMax: 1.02 }, {}),
    figures({ entries: 4, airtime: 4.25, waitP50: 3, waitP99: 8.6, waitMax: 8.6 }, { entries: 1, waitMax: 2 }, { entries: 2, waitMax: 1.04 }, {}));
  assert.deepEqual(HEADINGS, ["entries", "airtime", "wait, median", "p99", "max", "in vain"]);
  assert.deepEqual(rows.map((r) => r.name), ["0", "1", "2", "3+"]);
  assert.deepEqual(rows[0].fields, [["1", "4", "+3"], ["1.5 s", "4.3 s", "+2.8 s"], ["9.0 s", "3.0 s", "−6.0 s"], ["9.0 s", "8.6 s", "−0.4 s"], ["9.0 s", "8.6 s", "−0.4 s"], ["30.0 s", "0.0 s", "−30.0 s"]]);
  assert.deepEqual(rows[1].fields[4], ["–", "2.0 s", "–"], "who never entered has no wait");
  assert.deepEqual(rows[2].fields[4], ["1.0 s", "1.0 s", "0.0 s"], "what is shown as nothing has no sign");
});

test("without figures nothing is said", () => {
  assert.ok(compare(null, null).every((r) => r.fields.every((f) => f.join() === "–,–,–")));
  assert.deepEqual(compare(figures({ entries: 1 }, {}, {}, {}), null)[0].fields[0], ["1", "–", "–"]);
});

test("runs of another seed are not alike", () => {
  const scene = { start: 1, width: 480, height: 320, ruins: [[1, 2, 3, 4]], robots: 8, frequencies: ["A"], duration: 60 };
  assert.ok(alike(scene, { ...scene, start: 7, over: true }));
  assert.ok(!alike(scene, { ...scene, ruins: [[1, 2, 3, 5]] }));
  assert.ok(!alike(scene, { ...scene, duration: 30 }));
});

const utf8 = new TextEncoder();
const message = (ms, levels, v = "") => ({ ms, levels, payload: utf8.encode(typeof v === "string" ? v : JSON.stringify(v)), retained: false });

test("two recordings become one, in which both runs begin at the same moment", () => {
  const one = { started: 1_000_000, cut: false, messages: [message(0, ["presence", "a"]), message(500, ["show", "scene"], { start: 1_000_400 }), message(900, ["show", "robots"])] };
  const two = { started: 9_000_000, cut: true, messages: [message(100, ["show", "scene"], { start: 9_000_100 }), message(400, ["show", "robots"])] };
  const both = together([one, two]);
  assert.deepEqual(both.messages.map((m) => [m.ms, m.levels.join("/")]), [
    [0, "0/presence/a"], [400, "1/show/scene"], [500, "0/show/scene"], [700, "1/show/robots"], [900, "0/show/robots"],
  ]);
  assert.deepEqual([both.started, both.length, both.cut], [1_000_000, 900, true]);
});

test("a recording of something else is refused", () => {
  for (const messages of [[], [message(0, ["lock", "crane", "view"])], [message(0, ["show", "scene"], "{")], [message(0, ["show", "scene"], {})]]) {
    assert.throws(() => together([{ started: 0, messages }, { started: 0, messages }]), /no run of rescue-demo/);
  }
});

test("a run that begins under Fair was never under Level", () => {
  const run = new Rescue("radio"), json = JSON.stringify;
  run.apply(["show", "scene"], json({ start: 1000, duration: 60, frequencies: ["A"], ruins: [] }), 0);
  run.apply(["show", "figures"], json({ classes: [], phases: [{ from: 900, fair: true }] }), 0);
  assert.deepEqual(run.phases(), [{ from: 1000, fair: true }]);
});
