import test from "node:test";
import assert from "node:assert/strict";
import { Incidents, words } from "../incidents.js";
import { Rescue } from "../model.js";

const json = JSON.stringify;

test("a run remembers who was killed, which root is new, and when there was no connection", () => {
  const run = new Rescue("frequencies");
  const scene = { start: 1000, duration: 60, frequencies: ["A"], ruins: [] };
  run.apply(["show", "scene"], json(scene), 0);
  const robots = (dead, now) => run.apply(["show", "robots"], json({ at: now, robots: [{ name: "robot-1", x: 0, y: 0, dead: true }, { name: "robot-2", x: 0, y: 0, dead }] }), now);
  const view = (root, epoch, now) => run.apply(["lock", "frequencies", "view"], json({ topic: "frequencies", epoch, root }), now);
  run.connected(true, 1000);
  robots(false, 2000);
  robots(true, 4000);
  robots(true, 5000);
  view("center", "1.a", 2000);
  view("center", "1.a", 3000);
  view("robot-2", "2.b", 9000);
  run.connected(false, 11_000);
  run.connected(false, 12_000);
  run.connected(true, 16_000);
  run.connected(false, 31_000);
  assert.deepEqual(words(run.incidents, scene.start), ["robot-2 was killed at 0:03", "robot-2 became the root at 0:08", "no connection from 0:10 to 0:15", "no connection from 0:30"]);
});

test("a page that was never connected counts from its start, and the memory has an end", () => {
  const all = new Incidents();
  for (let i = 0; i < 1000; i++) all.root("robot-" + i, i);
  assert.equal(all.all.length, 200);
  assert.equal(all.all.at(-1).who, "robot-999");
});
