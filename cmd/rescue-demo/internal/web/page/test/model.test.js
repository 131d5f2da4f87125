import test from "node:test";
import assert from "node:assert/strict";
import { Rescue, classOf, classOfPriority, numberOf, rule } from "../model.js";

const T = "frequencies", F = "146.520";
const scene = { start: 1000, duration: 60, switchAt: 30, width: 480, height: 320, sight: 50, center: [240, 160], ruins: [], frequencies: [F, "446.000"], robots: 2 };
const json = JSON.stringify;
const iso = (ms) => new Date(ms).toISOString();

function started() {
  const run = new Rescue(T);
  assert.equal(run.apply(["show", "scene"], json(scene), 0), "scene");
  return run;
}
const told = (run, now) => Object.assign(run, { online: true, told: now }); // where the robots are, just now
const state = (over) => json({ topic: T, resource: F, holder: "robot-1", priority: 7, fence: "11", since: iso(2000), waiting: 1, queue: [{ participant: "robot-2", priority: 9, any: true }], epoch: "1.a", root: "center", ...over });
const setState = (run, over, now = 5000) => run.apply(["lock", T, F, "state"], state(over), now);
const event = (run, e) => run.apply(["lock", T, "events"], json({ topic: T, resource: F, participant: "robot-1", priority: 7, ...e }), 5000);

test("classes follow what is seen, and priorities likewise", () => {
  assert.deepEqual([-1, 0, 1, 2, 3, 9].map(classOf), [0, 0, 1, 2, 3, 3]);
  assert.deepEqual([9, 8, 7, 6, 0, -5, 100].map(classOfPriority), [0, 1, 2, 3, 3, 3, 0]);
  assert.equal(numberOf("robot-12"), "12");
  assert.equal(numberOf("center"), "");
});

test("a frequency shows the holder of its retained state", () => {
  const run = started();
  assert.equal(setState(run), "locks");
  told(run, 5000);
  const f = run.frequency(F, 5000);
  assert.deepEqual([f.holder, f.class, f.fence, f.waiting, f.queue[0].participant], ["robot-1", 2, "11", 1, "robot-2"]);
  assert.equal(run.sends("robot-1", 5000), F);
  assert.equal(run.sends("robot-2", 5000), "");
  assert.ok(run.waits("robot-2", 5000) && !run.waits("robot-1", 5000));
  for (const sign of ["shadow", "cut"]) {
    run.apply(["show", "robots"], json({ robots: [{ name: "robot-1", x: 0, y: 0, [sign]: true }] }), 5000);
    assert.ok(run.frequency(F, 5000).silent, sign);
  }
  run.apply(["show", "robots"], json({ robots: [{ name: "robot-1", x: 0, y: 0 }, { name: "robot-2", x: 0, y: 0, cut: true }] }), 5000);
  assert.ok(!run.frequency(F, 5000).silent);
  setState(run, { holder: "", queue: [], waiting: 0 });
  assert.equal(run.frequency(F, 5000).holder, "");
  assert.equal(run.sends("robot-1", 5000), "");
});

test("other topics' locks are not ours", () => {
  const run = started();
  assert.equal(run.apply(["lock", "crane", F, "state"], state({ topic: "crane" }), 1), null);
  assert.equal(run.sends("robot-1", 5000), "");
});

test("a picture is shown while its robot holds the frequency and it is fresh", () => {
  const run = started();
  setState(run);
  const frame = (robot, fence) => ({ frequency: F, robot, fence, number: 1, survivors: 2, picture: new Uint8Array(1) });
  run.picture(frame("robot-1", "11"), 5000);
  assert.equal(run.frequency(F, 5100).picture.robot, "robot-1");
  assert.equal(run.frequency(F, 9000).picture, null);
  run.picture(frame("robot-2", "9"), 5200); // of an old fence
  assert.equal(run.frequency(F, 5300).picture.robot, "robot-1");
  setState(run, { holder: "robot-2", fence: "12" });
  assert.equal(run.frequency(F, 5300).picture, null);
});

test("stays come from events and from the summary, and are one", () => {
  const run = started();
  event(run, { event: "granted", fence: "11", at: iso(2000) });
  run.apply(["show", "stays"], json([{ frequency: F, robot: "robot-1", priority: 7, fence: "11", from: 2000 }, { frequency: F, robot: "robot-2", priority: 9, fence: "10", from: 1500, to: 1900 }]), 0);
  assert.deepEqual(run.bars(F, 2500).map((b) => [b.robot, b.from, b.end, b.open]), [["robot-2", 1500, 1900, false], ["robot-1", 2000, 2500, true]]);
  event(run, { event: "released", fence: "11", at: iso(2800), held: 0.8 });
  assert.deepEqual(run.bars(F, 4000).map((b) => b.end), [1900, 2800]);
});

test("the end alone tells of a stay, and a loss is marked", () => {
  const run = started();
  event(run, { event: "lost", fence: "11", at: iso(3000), held: 1 });
  assert.deepEqual(run.bars(F, 4000).map((b) => [b.from, b.end, b.lost]), [[2000, 3000, true]]);
});

test("a stay without an end does not reach into the next one", () => {
  const run = started();
  event(run, { event: "granted", fence: "11", at: iso(2000) });
  event(run, { event: "granted", fence: "12", participant: "robot-2", at: iso(4000) });
  assert.deepEqual(run.bars(F, 5000).map((b) => [b.end, b.open]), [[4000, false], [5000, true]]);
});

test("phases change with the priority model only", () => {
  const run = started();
  assert.deepEqual(run.phases(), [{ from: 1000, fair: false }]);
  event(run, { event: "models", models: "level-forward-use-use", at: iso(2000) });
  event(run, { event: "models", models: "fair-forward-use-use", at: iso(3000) });
  event(run, { event: "models", models: "level-forward-use-use", at: iso(4000) });
  assert.deepEqual(run.phases().map((p) => [p.from, p.fair]), [[1000, false], [3000, true], [4000, false]]);
});

test("a page that comes late knows all phases from the figures, and goes on from there", () => {
  const run = started();
  const phases = [[900, false], [9000, true], [12_000, false]].map(([from, fair]) => ({ from, fair }));
  run.apply(["show", "figures"], json({ classes: [], switched: 9000, phases }), 0);
  assert.deepEqual(run.phases().map((p) => [p.from, p.fair]), [[1000, false], [9000, true], [12_000, false]]);
  event(run, { event: "models", models: "level-forward-use-use", at: iso(12_005) });
  event(run, { event: "models", models: "fair-forward-use-use", at: iso(13_000) });
  assert.deepEqual(run.phases().slice(2).map((p) => [p.from, p.fair]), [[12_000, false], [13_000, true]]);
});

test("robots move evenly between two messages", () => {
  const run = started();
  run.apply(["show", "robots"], json({ robots: [{ name: "robot-1", x: 0, y: 0 }] }), 1000);
  run.apply(["show", "robots"], json({ robots: [{ name: "robot-1", x: 10, y: 20 }] }), 1200);
  assert.deepEqual(run.place(run.robots[0], 1300), { x: 5, y: 10 });
  assert.deepEqual(run.place(run.robots[0], 9000), { x: 10, y: 20 });
});

test("a clock that goes differently is noticed", () => {
  const run = started();
  run.apply(["show", "robots"], json({ at: 1_000_000, robots: [] }), 1_000_300);
  assert.equal(run.theirs(1_000_400), 1_000_400);
  run.apply(["show", "robots"], json({ at: 1_000_000, robots: [] }), 1_060_000);
  assert.equal(run.theirs(1_060_100), 1_000_100);
});

test("another run is noticed, and nonsense is not taken in", () => {
  const run = started();
  assert.equal(run.apply(["show", "scene"], json({ ...scene, start: 2000 }), 0), "another");
  for (const name of ["scene", "figures", "robots", "survivors", "stays"]) {
    for (const payload of ["{", "null", "7", '"x"', "[]", "{}"]) run.apply(["show", name], payload, 0);
  }
  for (const [name, payload] of [["robots", '{"robots":[null,7,{"name":"robot-1"}]}'], ["survivors", "[null,7]"], ["stays", "[null,7]"]]) {
    run.apply(["show", name], payload, 0);
  }
  assert.ok(run.robots.every((r) => r.name) && run.survivors.every((s) => !s.found));
  for (const name of ["robots", "survivors"]) run.apply(["show", name], "{}", 0);
  assert.equal(run.stays.size, 0);
  assert.equal(run.scene.start, 1000);
  assert.deepEqual([run.robots, run.survivors, run.figures], [[], [], null]);
  assert.equal(run.apply(["show", "unknown"], "{}", 0), null);
});

test("the rule is told in words", () => {
  assert.match(rule("level-replace-use-use"), /most survivors/);
  assert.match(rule("fair-replace-use-use"), /in turn/);
  assert.equal(rule(undefined), "");
});

test("nothing is certain without the broker, without news of the robots, and after a reconnection", () => {
  const run = started();
  told(run, 5000);
  setState(run);
  const says = (now) => [run.sends("robot-1", now), run.waits("robot-2", now), run.frequency(F, now).doubt, run.asOf(now)];
  assert.deepEqual(says(6000), [F, true, false, 6000]);
  assert.deepEqual(says(9000), ["", false, true, 5000], "the demo says nothing any more");
  told(run, 9000);
  run.online = false;
  assert.deepEqual(says(9500), ["", false, true, 9000]);
  run.online = true;
  run.begin();
  assert.deepEqual(says(9500), ["", false, true, 9500], "it may have another holder since");
  setState(run, {}, 9500);
  assert.deepEqual(says(9500), [F, true, false, 9500]);
  run.apply(["presence", "robot-1"], json({ alive: false }), 9600);
  assert.deepEqual(says(9600), ["", false, true, 9600]);
  run.apply(["show", "robots"], json({ robots: [{ name: "robot-1", x: 0, y: 0, dead: true }] }), 9700);
  assert.ok(run.frequency(F, 9700).dead);
});
