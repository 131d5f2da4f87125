import test from "node:test";
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { Player, NoRecording, readRecording } from "../recording.js";

const header = { padme: "recording", version: 1, domain: "default", started: "2026-11-25T10:00:00Z" };
const events = (ms, name) => ({ ms, levels: ["lock", "crane", "events"], text: `{"event":"${name}"}\n` });
const file = (...lines) => gzipSync(lines.map((l) => JSON.stringify(l) + "\n").join(""));
const read = (bytes) => readRecording(new Blob([bytes]).stream());

test("a recording is read with text, bytes and what was missed", async () => {
  const r = await read(file(header, events(5, "requested"), { ms: 7, missed: 3 }, { ms: 9, levels: ["node", "a", "b"], data: "/wA=", retained: true }));
  assert.equal(r.started, Date.parse("2026-11-25T10:00:00Z"));
  assert.deepEqual([r.length, r.messages.length, r.cut], [9, 2, false]);
  assert.deepEqual(r.messages[1], { ms: 9, levels: ["node", "a", "b"], payload: new Uint8Array([255, 0]), retained: true });
});

test("a recording that breaks off is good up to there", async () => {
  const messages = Array.from({ length: 20000 }, (_, i) => ({ ms: i, levels: ["node", "a", "b"], text: Math.random().toString(36) }));
  const whole = file(header, ...messages);
  const r = await read(whole.subarray(0, whole.length / 2));
  assert.ok(r.cut);
  assert.ok(r.messages.length > 1000 && r.messages.length < 20000, `${r.messages.length} messages`);
});

test("what is no recording is refused with the reason", async () => {
  for (const [bytes, reason] of [["text", /cannot be read/], [file(), /empty/], [file({ padme: "else" }), /first line/], [file({ ...header, version: 2 }), /version 2/]]) {
    await assert.rejects(read(bytes), (e) => e instanceof NoRecording && reason.test(e.message));
  }
});

function player(...messages) {
  const got = [], time = { now: 1000 };
  let resets = 0;
  const p = new Player({ started: 1e12, length: messages.at(-1).ms, messages: messages.map((m) => ({ ...m, payload: new TextEncoder().encode(m.text) })) },
    { onMessage: (levels, payload) => got.push(new TextDecoder().decode(payload).trim()), onReset: () => resets++, clock: () => time.now });
  return { p, time, got: () => got.splice(0), resets: () => resets };
}

const story = [events(0, "requested"), events(100, "granted"), events(250, "released"), events(300, "granted"), events(400, "released")];

test("it plays at its speed, pauses, and ends with the recording", () => {
  const { p, time, got } = player(...story);
  p.play();
  p.tick();
  assert.equal(got().length, 1);
  time.now += 99;
  p.tick();
  assert.equal(got().length, 0);
  p.setSpeed(4);
  time.now += 40; // at 99 + 160
  p.tick();
  assert.equal(got().length, 2);
  p.pause();
  time.now += 10000;
  p.tick();
  assert.equal(got().length, 0);
  assert.equal(p.now, 1e12 + 259);
  p.play();
  time.now += 10000;
  p.tick();
  assert.equal(got().length, 2);
  assert.deepEqual([p.playing, p.at], [false, 400]);
});

test("it begins again after the end, and forgets when it goes back", () => {
  const { p, got, resets } = player(...story);
  p.seek(1000);
  assert.deepEqual([got().length, p.at, resets()], [5, 400, 0]);
  p.seek(120);
  assert.deepEqual([got().length, resets()], [2, 1]);
  p.seek(300);
  assert.deepEqual([got().length, resets()], [2, 1]);
  p.seek(400);
  p.play();
  assert.deepEqual([p.at, resets()], [0, 2]);
});

test("it goes from entry to entry", () => {
  const state = (ms, resource, holder, fence) => ({ ms, levels: ["lock", "crane", resource, "state"], text: JSON.stringify({ holder, fence }) });
  const { p, got } = player(state(0, "north", "", "1"), state(100, "north", "a", "2"), state(150, "north", "a", "2"), state(200, "south", "b", "2"),
    { ms: 250, levels: ["lock", "crane", "north", "state"], text: "no JSON" }, state(300, "north", "", "2"), state(350, "north", "a", "3"), state(400, "north", "", "3"));
  for (const at of [100, 200, 350, 400]) {
    p.nextEntry();
    assert.deepEqual([p.at, p.playing], [at, false]);
  }
  assert.equal(got().length, 8);
});
