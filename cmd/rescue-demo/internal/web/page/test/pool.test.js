import test from "node:test";
import assert from "node:assert/strict";
import { poolOf } from "../pool.js";

const request = (participant, only, priority = 8) => ({ participant, via: "", priority, any: !only, since: 1 });
const frequency = (name, queue, over) => ({ name, queue, waiting: queue.length, doubt: false, heard: 10, ...over });
const told = (pool) => pool.queue.map((w) => w.participant + (w.only && " " + w.only));

test("a request for any frequency is in the queue once, and one for a certain one says so", () => {
  const pool = poolOf([
    frequency("A", [request("r1"), request("r2", true), request("r3")]),
    frequency("B", [request("r1"), request("r4", true), request("r3"), request("r5", true)]),
  ]);
  assert.deepEqual(told(pool), ["r1", "r2 A", "r4 B", "r3", "r5 B"]);
  assert.deepEqual([pool.waiting, pool.more, pool.doubt], [5, false, false]);
});

test("two requests of one participant are two", () => {
  const twice = [request("shop"), request("shop"), request("shop", false, 3)];
  assert.deepEqual(told(poolOf([frequency("A", twice), frequency("B", twice)])), ["shop", "shop", "shop"]);
});

test("what was heard last says which requests for any frequency there are", () => {
  const before = frequency("A", [request("r1"), request("r2"), request("r6", true)], { heard: 10 });
  const after = frequency("B", [request("r2"), request("r3")], { heard: 11 });
  assert.deepEqual(told(poolOf([before, after])), ["r2", "r6 A", "r3"]);
  assert.deepEqual(told(poolOf([after, before])), ["r2", "r6 A", "r3"]);
});

test("what is certain counts more than what was heard last, and what is not is marked", () => {
  const sure = frequency("A", [request("r1")], { heard: 10 });
  const unsure = frequency("B", [request("r1"), request("r2"), request("r3", true)], { heard: 11, doubt: true });
  const pool = poolOf([unsure, sure]);
  assert.deepEqual(pool.queue.map((w) => [w.participant, w.doubt]), [["r1", false], ["r3", true]]);
  assert.equal(pool.doubt, false);
  assert.ok(poolOf([unsure]).doubt);
});

test("of a queue that is not told whole it is said how many there are at least", () => {
  const pool = poolOf([
    frequency("A", [request("r1"), request("r2", true)], { waiting: 5 }),
    frequency("B", [request("r1"), request("r7")], { waiting: 2, heard: 9 }),
  ]);
  assert.deepEqual(told(pool), ["r1", "r2 A", "r7"]);
  assert.deepEqual([pool.waiting, pool.more], [5, true]);
});

test("nobody waits", () => assert.deepEqual(poolOf([frequency("A", [])]).queue, []));
