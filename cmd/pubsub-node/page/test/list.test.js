import test from "node:test";
import assert from "node:assert/strict";
import { short } from "../list.js";

test("of a long fence a row has the digits that change", () => {
  assert.deepEqual(["1795279531745405", "1795279531745406", "1234567", "7", "0", ""].map(short), ["…745405", "…745406", "1234567", "7", "–", "–"]);
});
