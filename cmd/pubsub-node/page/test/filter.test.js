import test from "node:test";
import assert from "node:assert/strict";
import { matchState, unnamed, matchText, compareStates, route, link, History } from "../filter.js";
import { duties } from "../people.js";
import { Locks } from "/base/locks.js";

const state = (over = {}) => ({ topic: "crane", resource: "north", status: "held", holder: "lift-1", waiting: 1, queue: [{ participant: "Truck" }], ...over });

test("every word of a search must be in a lock, its holder or its waiters", () => {
  for (const [search, found] of [["", true], ["crane/n", true], ["NORTH lift", true], ["truck", true], ["truck south", false], ["  ", true]]) {
    assert.equal(matchState(state(), { search }), found, search);
  }
});

test("a gateway is found as well as its clients", () => {
  const served = state({ holder: "esp32", via: "gate-1", queue: [{ participant: "esp33", via: "gate-2" }] });
  for (const search of ["esp32", "gate-1", "esp33 gate-2"]) assert.ok(matchState(served, { search }), search);
  assert.ok(!matchState(state(), { search: "undefined" }));
});

test("kinds of locks", () => {
  const free = state({ status: "free", holder: "", waiting: 0, queue: [] });
  assert.deepEqual(["all", "held", "waiting", "free"].map((which) => [matchState(state(), { which }), matchState(free, { which })]),
    [[true, true], [true, false], [true, false], [false, true]]);
  assert.ok(matchText("Crane north granted", "north GRANTED"));
});

test("gate 2 stands before gate 10", () => {
  const names = ["gate-10", "gate-2", "gate-1"].map((resource) => state({ resource })).concat(state({ topic: "a", resource: "z" }));
  assert.deepEqual(names.sort(compareStates).map((s) => s.resource), ["z", "gate-1", "gate-2", "gate-10"]);
});

test("each lock has a link, whatever its name", () => {
  for (const [topic, resource] of [["crane", "default"], ["a/b", "146.52 %2F #?"], ["ü", "*"]]) {
    assert.deepEqual(route(link(topic, resource)), { view: "lock", topic, resource });
  }
  assert.deepEqual(route(""), { view: "locks" });
  assert.deepEqual(route("#/people"), { view: "people" });
  assert.deepEqual(route("#/tree/a%2Fb"), { view: "tree", topic: "a/b" });
  for (const odd of ["#/lock", "#/lock/%zz/x", "#/lock/a/b/c", "#/constructor", "#/nothing"]) assert.deepEqual(route(odd), { view: "locks" }, odd);
});

const granted = (n, resource = "north") => Array.from({ length: n }, () => ({ event: "granted", topic: "crane", resource }));

test("history keeps the last ten minutes, and counts", () => {
  const h = new History();
  h.add([...granted(1), { event: "released", topic: "crane", resource: "north" }], 0);
  h.add(granted(50), 590_000);
  assert.equal(h.newest().length, 52);
  h.add(granted(1), 600_001);
  assert.equal(h.newest().length, 51);
  assert.equal(h.newest()[0].number, 53);
  assert.equal(h.rate(600_001, 0), 0.1, "the fifty are more than ten seconds old");
  assert.equal(h.rate(599_000, 597_000), 0.5, "of two seconds");
});

test("a hot lock takes no other's history", () => {
  const h = new History();
  h.add(granted(3, "quiet"), 0);
  for (let t = 0; t < 10_000; t += 10) h.add(granted(15, "hot"), t);
  const quiet = { topic: "crane", resource: "quiet" }, hot = { topic: "crane", resource: "hot" };
  assert.equal(h.newest(quiet).length, 3);
  assert.equal(h.since(0, 10_000, quiet), 0);
  assert.ok(h.newest(hot).length >= 500 && h.newest(hot).length <= 600);
  assert.ok(h.since(0, 10_000, hot) > 9000, "what was heard before is not all there");
  assert.equal(Math.round(h.rate(10_000, 0)), 1500, "what it cannot keep counts all the same");
  assert.equal(h.newest(null, h.added - 2).length, 2);
  h.add([{ event: "rooted", topic: "crane", resource: "" }], 10_000);
  assert.equal(h.newest(quiet)[0].event, "rooted", "of all locks of the topic");
});

test("history is bounded, however many locks there are", () => {
  const h = new History();
  for (let i = 0; i < 3000; i++) h.add(granted(40, "r" + i), i);
  assert.ok(h.newest().length <= 20_000, h.newest().length);
  assert.ok(h.since(0, 3000) > 1900, "the first locks are forgotten");
  assert.equal(new History().since(3000, 10_000), 3000);
  assert.equal(new History().since(0, 700_000), 100_000);
});

test("a name that is no text has a link", () => {
  assert.match(link("t", "\ud800"), /^#\/lock\/t\//);
});

test("duties are what a participant holds, waits for and roots", () => {
  const m = new Locks();
  m.apply(["lock", "crane", "north", "state"], JSON.stringify({ topic: "crane", resource: "north", holder: "a", epoch: "1.0", queue: [{ participant: "b", priority: 1 }] }), 1);
  m.apply(["lock", "crane", "view"], JSON.stringify({ topic: "crane", epoch: "1.0", root: "a" }), 1);
  const all = duties(m);
  assert.deepEqual([all.get("a").holds.length, all.get("a").roots, all.get("b").waits[0].resource], [1, ["crane"], "north"]);
});

test("a gateway does what its clients want done", () => {
  const m = new Locks();
  m.apply(["lock", "crane", "north", "state"], JSON.stringify({ topic: "crane", resource: "north", holder: "esp32", via: "gate", epoch: "1.0", queue: ["esp33", "esp34"].map((participant) => ({ participant, via: "gate", priority: 1 })) }), 1);
  const all = duties(m);
  assert.deepEqual([...all.keys()], ["gate"]);
  assert.deepEqual([all.get("gate").holds.length, all.get("gate").waits.length], [1, 1]);
});

test("who waits beyond what a state names is counted", () => {
  assert.equal(unnamed([{ waiting: 60, queue: Array(16).fill({}) }, { waiting: 3, queue: Array(3).fill({}) }, { waiting: 0, queue: [] }]), 44);
});
