import test from "node:test";
import assert from "node:assert/strict";
import { Decisions } from "../decisions.js";
import { Locks, key } from "../locks.js";

const decision = (fence, over) => ({ fence: String(fence), fences: 1, at: fence, ...over });

test("an entry has the decision of the grant that it was made on", () => {
  const all = new Decisions();
  for (const d of [decision(10, { fences: 4 }), decision(12, { how: "resumed" }) /* of an earlier root */, decision(20)]) all.note("a", d);
  all.note("a", null);
  const of = (fence) => all.of("a", fence)?.fence;
  // Entries in passing, of which the last went on after a restart: nothing was decided then.
  assert.deepEqual(["9", "10", "11", "12", "13", "20", "21", "", "x"].map(of), [undefined, "10", "10", "10", "10", "20", undefined, undefined, undefined]);
  assert.equal(all.of("b", "10"), undefined);
  assert.equal(all.first("a").fence, "10");
  assert.equal(all.first("b"), undefined);
});

test("fences are larger than what a number can hold", () => {
  const all = new Decisions();
  all.note("a", decision("9007199254740993"));
  assert.equal(all.of("a", "9007199254740992"), undefined);
  assert.ok(all.of("a", "9007199254740993"));
});

test("what is said again of a grant replaces what was said", () => {
  const all = new Decisions();
  all.note("a", decision(1));
  all.note("a", decision(1, { outdated: true }));
  assert.equal(all.first("a").outdated, true);
});

test("a busy lock takes nothing from the others, and nothing grows without end", () => {
  const all = new Decisions();
  all.note("quiet", decision(1));
  for (let n = 1; n < 5000; n++) all.note("hot", decision(n));
  assert.ok(all.of("quiet", "1") && all.of("hot", "4999") && !all.of("hot", "1"));
  for (let n = 0; n < 5000; n++) for (let fence = 1; fence < 6; fence++) all.note("lock " + n, decision(fence));
  let kept = 0;
  for (const own of all.locks.values()) kept += own.length;
  assert.ok(all.locks.size <= 500 && kept <= 2000, `${kept} of ${all.locks.size} locks`);
});

const at = ["lock", "crane", "north", "state"];
const said = {
  at: "2026-11-21T10:00:00Z", models: "level-use-use-use", how: "turn", granted: { participant: "a", priority: 3, clock: 7 }, fence: "17", fences: 2, place: 1, waiting: 2,
  queue: [{ participant: "a", priority: 3, clock: 7 }, { participant: "b", priority: 5, clock: 6, by: "priority", passed: true }],
};
const state = (decision) => JSON.stringify({ topic: "crane", resource: "north", holder: "a", how: "turn", fence: "17", waiting: 0, epoch: "2.k", root: "r", decision });

test("a state has its decision, and the locks keep it when the state is gone", () => {
  const locks = new Locks();
  const { decision, how } = locks.apply(at, state(said), 1).state;
  assert.deepEqual([how, decision.how, decision.granted.participant, decision.at], ["turn", "turn", "a", Date.parse(said.at)]);
  assert.deepEqual(decision.queue.map((w) => [w.clock, w.by, w.passed]), [[7, "", false], [6, "priority", true]]);
  locks.apply(at, "", 2);
  assert.equal(locks.decisions.of(key("crane", "north"), "18"), decision);
});

test("a decision that does not say who was chosen, when and with which fence is none", () => {
  for (const bad of [undefined, null, "x", [], {}, ...["granted", "at", "fence", "fences"].map((k) => ({ ...said, [k]: undefined })), { ...said, fences: -1 }, { ...said, fences: 1e300 / 1e-300 }, { ...said, fences: 0.5 }]) {
    assert.equal(new Locks().apply(at, state(bad), 1).state.decision, null);
  }
});
