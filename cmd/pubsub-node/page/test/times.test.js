import test from "node:test";
import assert from "node:assert/strict";
import { timesOf, unusual, inWords, ranked } from "../times.js";
import { History, matchState } from "../filter.js";

const holds = (seconds) => seconds.map((held) => ({ event: "released", topic: "crane", resource: "north", held }));

test("percentiles are of nearest rank, of what ended in good order or not", () => {
  const events = [...holds([3, 1, 2]), { event: "lost", held: 10 }, { event: "granted", waited: 0.25 }, { event: "requested", waited: 9 }];
  assert.deepEqual(timesOf(events), { waiting: { n: 1, p50: 250, p99: 250 }, holding: { n: 4, p50: 2000, p99: 10_000 } });
  assert.deepEqual(timesOf([]).holding, { n: 0, p50: 0, p99: 0 });
  const hundred = timesOf(holds(Array.from({ length: 100 }, (_, i) => i + 1))).holding;
  assert.deepEqual([hundred.p50, hundred.p99], [50_000, 99_000]);
});

test("what is usual needs some holds, and is five times longer", () => {
  const short = timesOf(holds(Array(10).fill(2)));
  assert.deepEqual([4000, 9999, 10_001].map((ms) => unusual(short, ms)), [false, false, true]);
  assert.equal(unusual(timesOf(holds(Array(9).fill(2))), 3_600_000), false, "nine are too few");
  assert.deepEqual([4999, 5001].map((ms) => unusual(timesOf(holds(Array(10).fill(0.01))), ms)), [false, true]);
});

test("in words", () => {
  assert.equal(inWords({ n: 3, p50: 12.4, p99: 3200 }), "12ms / 3.2s");
  assert.equal(inWords({ n: 3, p50: 0.26, p99: 999.4 }), "0.3ms / 999ms");
  assert.equal(inWords({ n: 0, p50: 0, p99: 0 }), "–");
});

test("rows by what is most, and by name where that is equal", () => {
  const row = (name, heldFor, waiting, p99) => ({ name, heldFor, state: { waiting }, times: { waiting: { p99 }, holding: { p99: 1 } } });
  const rows = [row("c", 5, 0, 1), row("a", 0, 3, 1), row("b", 9, 3, 2)];
  const by = (key) => ranked(rows, key, (x, y) => x.name.localeCompare(y.name)).map((r) => r.name).join("");
  assert.deepEqual(["for", "queue", "waited", "held", "name"].map(by), ["bca", "abc", "bac", "abc", "abc"]);
});

test("the history tells the times of one lock, and those that are too old are forgotten", () => {
  const h = new History();
  h.add(holds([1, 3]), 0);
  h.add([{ event: "released", topic: "crane", resource: "south", held: 60 }], 0);
  assert.deepEqual(h.times("crane", "north").holding, { n: 2, p50: 1000, p99: 3000 });
  h.add(holds([9]), 400_000);
  assert.equal(h.times("crane", "north").holding.p99, 9000);
  h.add(holds([2]), 700_000);
  assert.deepEqual(h.times("crane", "north").holding, { n: 2, p50: 2000, p99: 9000 });
  assert.equal(h.times("crane", "none").waiting.n, 0);
});

test("locks that are held for longer than usual", () => {
  const state = { topic: "crane", resource: "north", status: "held", waiting: 0, queue: [] };
  assert.deepEqual([false, true].map((long) => matchState(state, { which: "long" }, long)), [false, true]);
  assert.ok(matchState(state, { which: "held" }, true));
});
