import test from "node:test";
import assert from "node:assert/strict";
import { encodeLevel, decodeLevel, parseTopic, rootOf } from "../levels.js";

test("a level is encoded as docs/topics.md says, and decoded again", () => {
  for (const [name, level] of [
    ["crane", "crane"],
    ["146.520", "146%2E520"],
    ["a b/c+d#e>f%g~h*i$", "a%20b%2Fc%2Bd%23e%3Ef%25g%7Eh%2Ai%24"],
    ["Kran-über_Ü", "Kran-über_Ü"],
  ]) {
    assert.equal(encodeLevel(name), level);
    assert.equal(decodeLevel(level), name);
  }
});

test("what no name is encoded as is not decoded", () => {
  for (const level of ["", "a.b", "%2e", "%41", "%2", "%", "a b", "%ZZ", "a".repeat(385)]) assert.equal(decodeLevel(level), null, level);
});

test("a topic is split below the root of its domain only", () => {
  const root = rootOf({ prefix: "padme", domain: "my site" });
  assert.equal(root, "padme/v1/my%20site");
  assert.deepEqual(parseTopic(root, root + "/lock/freq/146%2E520/state"), ["lock", "freq", "146.520", "state"]);
  for (const topic of ["padme/v1/other/presence/a", root, root + "x/presence/a", root + "/lock//state", root + "/lock/a.b/state"]) {
    assert.equal(parseTopic(root, topic), null, topic);
  }
});
