import test from "node:test";
import assert from "node:assert/strict";
import { Freshness } from "../freshness.js";

test("time stops when the broker answers no more", () => {
  const f = new Freshness();
  assert.equal(f.now(500), 500, "nothing was heard yet");
  assert.equal(f.status({ state: "connected", session: 1, heard: 1000 }), true);
  assert.deepEqual([f.now(9000), f.text(9000), f.sign], [9000, "", "live"]);
  for (const state of ["silent", "offline", "connecting", "refused"]) {
    assert.equal(f.status({ state, session: 1, heard: 2000 }), false);
    assert.deepEqual([f.now(14_000), f.sign], [2000, "stale"]);
    assert.match(f.text(14_000), /^as of .*, 12s behind$/);
  }
});

test("after a reconnection data settles", () => {
  const f = new Freshness();
  f.status({ state: "connected", session: 1, heard: 1000 });
  f.status({ state: "offline", session: 1, heard: 1000 });
  assert.equal(f.status({ state: "connected", session: 2, heard: 5000 }), true);
  assert.deepEqual([f.sign, f.now(6000), f.text(6000)], ["settling", 6000, ""]);
  f.settled = true;
  assert.equal(f.status({ state: "connected", session: 2, heard: 7000 }), false, "it answers again, on the same connection");
  assert.equal(f.sign, "live");
});
