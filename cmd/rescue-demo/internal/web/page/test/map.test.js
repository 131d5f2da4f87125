import test from "node:test";
import assert from "node:assert/strict";
import { labelPlace, pips } from "../map.js";

test("a robot has as many pips as its class, in the middle", () => {
  assert.deepEqual([0, 1, 2, 3].map((c) => pips(c).length), [0, 1, 2, 3]);
  for (const c of [1, 2, 3]) assert.ok(Math.abs(pips(c).reduce((sum, [x]) => sum + x, 0)) < 1e-9);
});

test("the label of a frequency hides no other robot if there is another place, and is on the map", () => {
  const map = { left: 0, right: 400 }, at = [200, 100];
  assert.deepEqual(labelPlace(at, 50, [], map), [200, 75]);
  assert.deepEqual(labelPlace(at, 50, [[210, 80]], map), [200, 136]);
  assert.deepEqual(labelPlace(at, 50, [[210, 80], [190, 130]], map), [134, 100], "beside it, away from the first");
  assert.deepEqual(labelPlace([200, 5], 50, [], map), [200, 41]);
  assert.deepEqual(labelPlace([395, 100], 50, [], map), [350, 75]);
  assert.deepEqual(labelPlace(at, 50, [[210, 80], [190, 130], [260, 100], [140, 100]], map), [200, 75]);
});
