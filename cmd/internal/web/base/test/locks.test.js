import test from "node:test";
import assert from "node:assert/strict";
import { Locks, key, named, TERM_ENDS, MOST } from "../locks.js";
import { parseEpoch, compareEpochs, parseFence } from "../epoch.js";

const state = (over = {}) => JSON.stringify({
  topic: "crane", resource: "north", holder: "a", priority: 3, fence: "17", since: "2026-11-21T10:00:00Z",
  waiting: 1, queue: [{ participant: "b", priority: 5 }], epoch: "2.k", root: "r", ...over,
});
const at = ["lock", "crane", "north", "state"];
const events = (...all) => all.map((e) => JSON.stringify({ topic: "crane", resource: "north", priority: 5, at: "2026-11-21T10:00:00Z", ...e })).join("\n") + "\n";

test("a state is read, replaced and cleared", () => {
  const m = new Locks();
  assert.equal(m.apply(at, state(), 1000).state.holder, "a");
  const change = m.apply(at, state({ holder: "", fence: "18", queue: undefined, waiting: 0 }), 1100);
  assert.equal(change.state.holder, "");
  assert.equal(change.was.holder, "a");
  assert.equal(m.states.get(key("crane", "north")).fence, "18");
  assert.equal(m.apply(at, "", 1200).state, null);
  assert.equal(m.states.size, 0);
  assert.equal(m.apply(at, "", 1300), null);
});

test("what does not belong where it stands is refused", () => {
  const m = new Locks();
  for (const payload of ["{", "[]", "null", state({ topic: "other" }), state({ resource: "south" }), state({ epoch: "x" })]) {
    assert.equal(m.apply(at, payload, 1), null);
  }
  assert.equal(m.refused, 6);
  assert.equal(m.states.size, 0);
});

test("only what is held has a holder", () => {
  const m = new Locks();
  const read = (over) => m.apply(at, state(over), 1).state;
  const granted = read({ status: "granted", holder: undefined, grantee: "b" });
  assert.deepEqual([granted.status, granted.holder, granted.grantee], ["granted", "", "b"]);
  const unknown = read({ status: "unknown", fence: undefined, grantee: "b" });
  assert.deepEqual([unknown.status, unknown.holder, unknown.grantee, unknown.fence], ["unknown", "", "", ""]);
  assert.deepEqual([read({ status: "held" }).status, read({ status: "held" }).holder], ["held", "a"]);
  assert.equal(read({ status: undefined }).status, "held", "of a root of before there was a status");
  assert.equal(read({ status: undefined, holder: undefined }).status, "free");
  assert.equal(read({ status: "<b>", holder: undefined }).status, "free");
});

test("a client is named, and what it comes through", () => {
  const m = new Locks();
  const { state: s } = m.apply(at, state({ holder: "esp32", via: "gate", queue: [{ participant: "b", priority: 5 }, { participant: "esp33", via: "gate", priority: 6 }] }), 1);
  assert.deepEqual([named(s.holder, s.via), ...s.queue.map((w) => named(w.participant, w.via))], ["esp32 (via gate)", "b", "esp33 (via gate)"]);
  assert.equal(m.apply(at, state({ via: { evil: 1 } }), 2).state.via, "");
  const { events: [e] } = m.apply(["lock", "crane", "events"], events({ event: "granted", participant: "esp32", via: "gate", request: "gate/1" }), 3);
  assert.equal(named(e.participant, e.via), "esp32 (via gate)");
  assert.equal(named("", "gate"), "");
});

test("two clients of one gateway wait for times of their own", () => {
  const m = new Locks();
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "esp32", via: "gate", request: "gate/1" }), 1000);
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "esp33", via: "gate", request: "gate/2" }), 2000);
  m.apply(at, state({ queue: ["esp33", "esp32"].map((participant) => ({ participant, via: "gate", priority: 5 })) }), 3000);
  assert.deepEqual(m.states.get(key("crane", "north")).queue.map((w) => w.since), [2000, 1000]);
});

test("odd fields do no harm", () => {
  const m = new Locks();
  const { state: s } = m.apply(at, state({ holder: { evil: 1 }, queue: [{}, null, 7, { participant: "b", priority: "<b>" }], since: "never" }), 1);
  assert.equal(s.holder, "");
  assert.equal(s.since, null);
  assert.deepEqual(s.queue.map((w) => [w.participant, w.priority]), [["b", 0]]);
});

test("a root of the past is not believed, until its successor has been silent", () => {
  const m = new Locks();
  m.apply(at, state({ epoch: "3.0", holder: "new" }), 1000);
  assert.equal(m.apply(at, state({ epoch: "2.zz", holder: "old" }), 2000), null);
  assert.equal(m.states.get(key("crane", "north")).holder, "new");
  m.apply(at, state({ epoch: "2.zz", holder: "old" }), 1000 + TERM_ENDS);
  assert.equal(m.states.get(key("crane", "north")).holder, "old");
});

test("who waits has a time: since its event, or since it was first seen", () => {
  const m = new Locks();
  const waiter = () => m.states.get(key("crane", "north")).queue[0];
  m.apply(at, state(), 1000);
  assert.deepEqual([waiter().since, waiter().exact], [1000, false]);
  m.apply(at, state({ waiting: 9 }), 4000);
  assert.equal(waiter().since, 1000, "another state of the same queue begins no new wait");
  m.apply(["lock", "crane", "events"], events({ event: "granted", participant: "b", request: "b/1" }), 4500);
  m.apply(at, state({ queue: [] }), 5000);
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/2" }), 6000);
  m.apply(at, state(), 6100);
  assert.deepEqual([waiter().since, waiter().exact], [6000, true]);
  m.apply(["lock", "crane", "events"], events({ event: "reprioritised", participant: "b", request: "b/2", priority: 1 }), 6200);
  m.apply(at, state({ queue: [{ participant: "b", priority: 1 }] }), 6300);
  assert.deepEqual([waiter().since, waiter().exact], [6000, true]);
});

test("the event of a request may come after the state", () => {
  const m = new Locks();
  const waiter = () => m.states.get(key("crane", "north")).queue[0];
  for (const [late, exact] of [[900, true], [1100, false]]) {
    m.apply(at, state({ queue: [] }), 0);
    m.apply(at, state(), 1000);
    m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/" + late }), 1000 + late);
    assert.deepEqual([waiter().since, waiter().exact], [1000, exact]);
    m.apply(["lock", "crane", "events"], events({ event: "withdrawn", participant: "b", request: "b/" + late }), 3000);
  }
});

test("two requests of one participant keep their own times", () => {
  const m = new Locks();
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/1" }), 1000);
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/2", resource: "*" }), 2000);
  m.apply(at, state({ queue: [{ participant: "b", priority: 5 }, { participant: "b", priority: 5, any: true }] }), 3000);
  assert.deepEqual(m.states.get(key("crane", "north")).queue.map((w) => w.since), [1000, 2000]);
});

test("requests whose end was lost are bounded", () => {
  const m = new Locks();
  for (let i = 0; i < 1000; i++) m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/" + i }), i);
  assert.equal(m.asked.get("crane").get("b").length, 64);
});

test("what waited before a connection was lost is not taken for what waits after it", () => {
  const m = new Locks();
  const waiter = () => m.states.get(key("crane", "north")).queue[0];
  m.begin();
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/1" }), 1000);
  m.apply(at, state(), 1100);
  m.begin(); // b was served meanwhile, and has asked again
  m.apply(at, state(), 60_000);
  assert.deepEqual([waiter().since, waiter().exact], [60_000, false]);
});

test("a request whose end was lost does not lend its time to the next", () => {
  const m = new Locks();
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/1" }), 1000);
  m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "b", request: "b/2" }), 60_000);
  m.apply(at, state(), 60_100);
  assert.equal(m.states.get(key("crane", "north")).queue[0].since, 60_000);
});

test("strangers cannot fill what is remembered of requests", () => {
  const m = new Locks();
  for (let i = 0; i < 30_000; i++) {
    m.apply(["lock", "crane", "events"], events({ event: "requested", participant: "p" + i, request: "p/" + i }), i);
    m.apply(["lock", "t" + i, "events"], JSON.stringify({ topic: "t" + i, event: "granted", participant: "a", request: "a/1" }), i);
  }
  let n = 0;
  for (const topic of m.asked.values()) n += 1 + topic.size;
  assert.ok(n <= 20_000, `${n} are remembered`);
});

test("strangers cannot fill what is known", () => {
  const m = new Locks();
  const say = (levels, v) => m.apply(levels, JSON.stringify(v), 1);
  for (let i = 0; i < MOST + 100; i++) {
    const t = "t" + i;
    say(["lock", t, "r", "state"], { topic: t, resource: "r", epoch: "1.0" });
    say(["lock", t, "view"], { topic: t, epoch: "1.0" });
    say(["lock", t, "member", "a"], { topic: t, participant: "a" });
    say(["lock", "t", "member", t], { topic: "t", participant: t });
    say(["presence", t], { alive: true });
  }
  assert.deepEqual([m.states, m.views, m.members, m.participants].map((map) => map.size), [MOST, MOST, MOST, MOST]);
  assert.ok(m.full && m.members.get("t").size <= MOST && m.terms.size <= 2 * MOST);
  assert.ok(say(["presence", "t1"], { alive: false }), "who is known goes on");
  m.begin();
  assert.ok(!m.full);
});

test("a queue is as long as roots publish it", () => {
  const m = new Locks();
  const queue = Array.from({ length: 50_000 }, (_, i) => ({ participant: "p" + i, priority: 1 }));
  assert.equal(m.apply(at, state({ queue, waiting: 50_000 }), 1).state.queue.length, 16);
});

test("what a new connection does not say again is gone after the sweep", () => {
  const m = new Locks();
  m.begin();
  m.apply(at, state(), 1);
  m.apply(["presence", "a"], '{"alive":true,"incarnation":"1","epoch":"1","since":"2026-11-21T10:00:00Z"}', 1);
  m.apply(["presence", "b"], '{"alive":false,"incarnation":"1","epoch":"1","since":"2026-11-21T10:00:00Z"}', 1);
  m.apply(["lock", "crane", "member", "a"], '{"topic":"crane","participant":"a","parent":"r"}', 1);
  assert.deepEqual([m.alive("a"), m.alive("b"), m.alive("c")], [true, false, undefined]);
  m.begin();
  m.apply(["presence", "a"], '{"alive":true,"incarnation":"1","epoch":"2","since":"2026-11-21T10:00:00Z"}', 2);
  assert.equal(m.sweep(), 3);
  assert.deepEqual([...m.participants.keys()], ["a"]);
  assert.equal(m.states.size + m.members.get("crane").size, 0);
});

test("events are lines, and bad ones are counted", () => {
  const m = new Locks();
  const change = m.apply(["lock", "crane", "events"], events({ event: "rooted", participant: "r" }) + 'nonsense\n{"event":"granted","topic":"other"}\n\n', 1);
  assert.equal(change.events.length, 1);
  assert.equal(m.refused, 2);
});

test("epochs and fences above 2^53 are compared exactly", () => {
  const e = (t) => parseEpoch(t);
  assert.equal(compareEpochs(e("9007199254740993.0"), e("9007199254740992.0")), 1);
  assert.equal(compareEpochs(e("1.zzzzzzzzzzzz1"), e("1.zzzzzzzzzzzz0")), 1);
  assert.equal(compareEpochs(e("1.0"), e("1.0")), 0);
  assert.equal(compareEpochs(null, e("1.0")), -1);
  assert.equal(parseEpoch("1"), null);
  assert.equal(parseFence("1795219200000017") + 1n, 1795219200000018n);
  assert.equal(parseFence("1e9"), 0n);
});

test("a state is in doubt until it is said again, and when its root or holder is gone", () => {
  const m = new Locks();
  const say = (now) => m.apply(["lock", "crane", "north", "state"], JSON.stringify({ topic: "crane", resource: "north", status: "held", holder: "esp32", via: "gate", root: "tower", epoch: "1.0" }), now).state;
  const presence = (id, alive) => m.apply(["presence", id], JSON.stringify({ alive }), 1);
  m.begin();
  let s = say(100);
  assert.equal(m.doubt(s), "");
  assert.equal(m.until(s, 900), 900);
  m.begin();
  assert.equal(m.doubt(s), "old");
  assert.equal(m.until(s, 900), 100, "nothing is known of it since");
  s = say(1000);
  assert.equal(m.doubt(s), "");
  presence("gate", false);
  assert.equal(m.doubt(s), "gone");
  presence("gate", true);
  presence("tower", false);
  assert.equal(m.doubt(s), "root gone");
});

test("who did not come back after a restart of the broker is not known to live, until heard", () => {
  const m = new Locks();
  const presence = (id, epoch, incarnation = "1") => m.apply(["presence", id], JSON.stringify({ alive: true, incarnation, epoch }), 1);
  const held = () => m.apply(at, state({ root: "r", queue: [] }), 1).state;
  const begin = () => {
    m.begin();
    presence("a", "1");
    presence("b", "1");
    return held();
  };
  presence("r", "1");
  begin();
  presence("r", "1");
  let s = begin();
  assert.equal(presence("r", "1").all, false);
  assert.equal(m.doubt(s), "", "only the page was cut off");
  s = begin();
  assert.equal(presence("r", "2").all, true);
  assert.equal(presence("b", "2").all, false, "that is known");
  assert.deepEqual(["a", "b", "r"].map((id) => m.unconfirmed(id)), [true, false, false]);
  assert.equal(m.doubt(s), "old");
  const said = m.apply(["lock", "crane", "events"], events({ event: "released", participant: "esp32", via: "a" }), 2);
  assert.deepEqual(said.heard, ["a"]);
  assert.equal(m.doubt(s), "");
  assert.equal(m.hear("a"), false);
});

test("a restart of the broker is seen by who comes back after the page, and not forgotten when the page is cut off", () => {
  const m = new Locks();
  const presence = (id, epoch, alive = true) => m.apply(["presence", id], JSON.stringify({ alive, incarnation: "1", epoch }), 1);
  const begin = (...all) => {
    m.begin();
    for (const [id, epoch] of all) presence(id, epoch);
  };
  const unconfirmed = () => ["a", "b", "r"].filter((id) => m.unconfirmed(id));
  begin(["a", "1"], ["b", "1"], ["r", "1"]);
  begin(["a", "1"], ["b", "1"], ["r", "1"]); // what the broker has kept
  assert.deepEqual(unconfirmed(), []);
  assert.equal(presence("r", "2").all, true);
  assert.deepEqual(unconfirmed(), ["a", "b"]);
  presence("b", "2");
  assert.deepEqual(unconfirmed(), ["a"]);
  begin(["a", "1"], ["b", "2"], ["r", "2"]);
  assert.deepEqual(unconfirmed(), ["a"]);
  begin(["a", "1"], ["b", "2"], ["r", "2"]);
  assert.deepEqual(unconfirmed(), ["a"]);
  presence("a", "1"); // it says so itself
  assert.deepEqual(unconfirmed(), []);
  begin(["a", "1"], ["b", "2"], ["r", "2"]);
  presence("b", "2", false);
  assert.equal(presence("b", "3").all, false, "it was cut off alone, which the broker has told");
  assert.deepEqual(unconfirmed(), []);
});

test("a waiter waits as long in every queue, and whatever its priority becomes", () => {
  const m = new Locks();
  const wait = (resource, priority, now) => m.apply(["lock", "t", resource, "state"], JSON.stringify({ topic: "t", resource, status: "held", holder: "a", epoch: "1.0", waiting: 1, queue: [{ participant: "b", priority, any: true }] }), now).state.queue[0].since;
  assert.equal(wait("one", 9, 1000), 1000);
  assert.equal(wait("one", 7, 2000), 1000, "it is more important by now");
  assert.equal(wait("two", 6, 3000), 1000, "it waits for any");
  assert.equal(wait("two", 5, 4000), 1000);
});
