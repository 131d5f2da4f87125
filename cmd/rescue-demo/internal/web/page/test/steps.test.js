import test from "node:test";
import assert from "node:assert/strict";
import { STEPS, standstill } from "../steps.js";

const waits = (participant, priority, since) => ({ participant, via: "", priority, since, any: true });

// world is what a step looks at: a run with what is given, and nothing in doubt.
function world({ holders = {}, queue = [], robots = [], models = "level-forward-forward-forward", root = "center", dead = [], over = false, live = true, doubt = [] } = {}) {
  const names = ["A", "B"];
  return {
    scene: { frequencies: names, over },
    robots, view: { models, root },
    live: () => live,
    locks: { alive: (name) => !dead.includes(name) },
    frequency(name) {
      const holder = holders[name] ?? "", r = robots.find((r) => r.name === holder);
      return { name, holder, via: "", doubt: doubt.includes(name), silent: !!(r?.shadow || r?.cut), since: 1000, heard: 1, queue, waiting: queue.length };
    },
  };
}

// through looks at one world after the other and returns what is said last.
function through(step, may, ...worlds) {
  const memory = step.begin(worlds[0], 9000);
  return worlds.map((w) => step.look(w, 9000, memory, may)).at(-1);
}

const [lock, priority, shadow, root, fair] = STEPS;

test("there are five steps, and each says what it is about", () => {
  assert.deepEqual(STEPS.map((s) => s.title), ["A lock", "A priority", "A shadow", "The root is killed", "Fair"]);
  assert.ok(STEPS.every((s) => s.text.length > 60 && s.text.length < 220));
});

test("a lock: another robot gets the frequency", () => {
  const one = world({ holders: { A: "robot-1" } });
  assert.ok(!through(lock, true, world(), one, one).done);
  assert.ok(!through(lock, true, one, world()).done);
  const said = through(lock, true, one, world(), world({ holders: { A: "robot-2" } }));
  assert.ok(said.done);
  assert.match(said.says, /^Robot 1 had A MHz, and now robot 2 has it/);
  assert.ok(!through(lock, true, one, world({ holders: { A: "robot-2" }, doubt: ["A"] })).done, "it is not certain");
});

test("a priority: who is more important goes before who has waited longer", () => {
  const queue = [waits("robot-1", 3, 8000), waits("robot-2", 9, 4000)];
  const before = world({ holders: { A: "robot-3" }, queue });
  const said = through(priority, true, before, world({ holders: { A: "robot-1" }, queue: queue.slice(1) }));
  assert.ok(said.done);
  assert.equal(said.says, "Robot 1 (priority 3) got A MHz before robot 2 (priority 9), which has waited longer: 5.0 s.");
  assert.ok(!through(priority, true, before, world({ holders: { A: "robot-2" }, queue: queue.slice(0, 1) })).done);
  assert.ok(!through(priority, true, world({ holders: { A: "robot-1" }, queue }), world({ holders: { A: "robot-1" }, queue })).done);
});

test("a priority: under Fair it decides nothing", () => {
  const of = (may) => through(priority, may, world({ models: "fair-forward-forward-forward" }));
  assert.match(of(true).act, /level/);
  assert.equal(of(false).act, undefined);
});

test("a shadow: who is cut off while it has a frequency loses it", () => {
  const off = [{ name: "robot-1", shadow: true }, { name: "robot-2" }];
  const silent = world({ holders: { A: "robot-1" }, robots: off, doubt: ["A"] });
  assert.equal(through(shadow, true, silent).target, "robot-1");
  const said = through(shadow, true, silent, world({ robots: off }), world({ holders: { A: "robot-2" }, robots: off }));
  assert.ok(said.done);
  assert.equal(said.says, "Robot 1 was cut off and has lost A MHz. Robot 2 has it now.");
  const out = [{ name: "robot-1" }, { name: "robot-2" }];
  assert.ok(!through(shadow, true, silent, world({ robots: out }), world({ holders: { A: "robot-2" }, robots: out })).done, "it came back and may have given it back");
});

test("a shadow: the radio of one that sends can be cut, if the page may", () => {
  const of = (may) => through(shadow, may, world({ holders: { B: "robot-2" }, robots: [{ name: "robot-2" }, { name: "robot-4", shadow: true }] }));
  assert.equal(of(true).act, '#robots li[data-robot="robot-2"] [data-act=cut]');
  assert.equal(of(true).target, "robot-4");
  assert.equal(of(false).act, undefined);
});

test("the root: another one takes over", () => {
  assert.equal(through(root, true, world()).act, "#kill-root");
  assert.equal(through(root, false, world()).act, undefined);
  assert.match(through(root, true, world(), world({ dead: ["center"] })).says, /^Center is dead/);
  const said = through(root, true, world(), world({ root: "robot-4" }));
  assert.ok(said.done);
  assert.match(said.says, /^Center is dead, and robot 4 is the root/);
});

test("Fair: the models change, once the center is there", () => {
  assert.match(through(fair, true, world()).act, /fair/);
  assert.equal(through(fair, true, world({ dead: ["center"] })).act, undefined);
  assert.equal(through(fair, false, world()).act, undefined);
  assert.ok(through(fair, true, world({ models: "fair-forward-forward-forward" })).done);
});

test("nothing happens after the end, and without news", () => {
  assert.equal(standstill(world(), 0), "");
  assert.match(standstill(world({ over: true, live: false }), 0), /^The run is over/);
  assert.match(standstill(world({ live: false }), 0), /^Nothing is heard/);
});
