import test from "node:test";
import assert from "node:assert/strict";
import { Locks } from "../locks.js";
import { treeOf, forest, layout, along } from "../tree.js";

const member = (id, parent, over = {}) => ({ id, parent, role: parent ? "member" : "root", candidate: false, priority: 1, alive: true, ...over });

test("who counts as a member: those with a presence of the same incarnation", () => {
  const m = new Locks();
  const say = (levels, value) => m.apply(levels, JSON.stringify(value), 1);
  const here = (id, incarnation, alive = true) => say(["presence", id], { alive, incarnation, epoch: "1", since: "2026-11-21T10:00:00Z" });
  const place = (id, parent, incarnation) => say(["lock", "t", "member", id], { topic: "t", participant: id, incarnation, role: parent ? "member" : "root", parent, priority: 1, epoch: "1.0" });
  for (const [id, parent] of [["root", ""], ["a", "root"], ["b", "a"], ["again", "root"], ["dead", "root"], ["parent", "root"], ["child", "parent"]]) {
    here(id, "1", id !== "dead" && id !== "parent");
    place(id, parent, id === "again" ? "0" : "1");
  }
  const ids = () => treeOf(m, "t").map((n) => n.id + (n.alive ? "" : " gone")).sort();
  assert.deepEqual(ids(), ["a", "b", "child", "parent gone", "root"], "the dead are seen while somebody counts on them");
  say(["lock", "t", "view"], { topic: "t", epoch: "1.0", root: "a", members: 3 });
  assert.deepEqual(ids(), ["a", "b", "child", "parent gone", "root"]);
  const roles = Object.fromEntries(treeOf(m, "t").map((n) => [n.id, n.role]));
  assert.equal(roles.a, "root", "the view says who is the root");
  assert.equal(roles.root, "member");
});

test("voters that any root misses", () => {
  const m = new Locks();
  const say = (topic, missing) => m.apply(["lock", topic, "view"], JSON.stringify({ topic, epoch: "1.0", root: "a", members: 3, missing }), 1);
  say("a", ["v3", "v2"]);
  say("b", ["v3", 7]);
  say("c");
  assert.deepEqual(m.missing(), ["v2", "v3"]);
  say("a", []);
  say("b");
  assert.deepEqual(m.missing(), []);
});

test("a chain that somebody invented is drawn all the same", () => {
  const members = Array.from({ length: 20_000 }, (_, i) => member("m" + i, i ? "m" + (i - 1) : ""));
  assert.equal(layout(members, 800, 100).nodes.length, 20_000);
});

test("cycles and strangers' children are loose, and everybody is there once", () => {
  const { roots, loose } = forest([member("r", ""), member("a", "r"), member("x", "y"), member("y", "x"), member("s", "s"), member("o", "nobody")]);
  assert.deepEqual(roots.map((n) => n.id), ["r"]);
  const all = [];
  const walk = (n) => { all.push(n.id); n.children.forEach(walk); };
  [...roots, ...loose].forEach(walk);
  assert.deepEqual(all.sort(), ["a", "o", "r", "s", "x", "y"]);
});

test("a layout fits its width, keeps rows apart and knows every edge", () => {
  const small = [member("r", ""), member("a", "r"), member("b", "r"), member("c", "a")];
  const many = [member("r", ""), ...Array.from({ length: 199 }, (_, i) => member("m" + i, i < 8 ? "r" : "m" + Math.floor((i - 8) / 8)))];
  for (const [members, width, kind] of [[small, 600, "down"], [small, 200, "rows"], [many.slice(0, 60), 900, "rows"], [many, 900, "rings"]]) {
    const place = layout(members, width, 100);
    assert.equal(place.kind, kind);
    assert.equal(place.nodes.length, members.length);
    assert.equal(place.edges.length, members.length - 1);
    for (const n of place.nodes) assert.ok(n.x >= 0 && n.x <= place.width && n.y >= 0 && n.y <= place.height, `${n.id} at ${n.x},${n.y}`);
    const spots = new Set(place.nodes.map((n) => `${Math.round(n.x)},${Math.round(n.y)}`));
    assert.equal(spots.size, members.length, "nobody stands on another");
    for (const e of place.edges) assert.equal(members.find((m) => m.id === e.from).parent, e.to);
  }
  assert.deepEqual(layout([], 600, 100).nodes, []);
});

test("along walks a line at an even pace", () => {
  const line = [[0, 0], [10, 0], [10, 30]];
  assert.deepEqual(along(line, 0), [0, 0]);
  assert.deepEqual(along(line, 0.25), [10, 0]);
  assert.deepEqual(along(line, 0.5), [10, 10]);
  assert.deepEqual(along(line, 1), [10, 30]);
  assert.deepEqual(along([[5, 5], [5, 5]], 0.5), [5, 5]);
});
