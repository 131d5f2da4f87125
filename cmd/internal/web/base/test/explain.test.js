import test from "node:test";
import assert from "node:assert/strict";
import { clock } from "../dom.js";
import { entryText, grantText, placeText, reason, unknownText } from "../explain.js";

const at = Date.parse("2026-11-21T10:00:00Z"), time = clock(at);
const grant = (over) => ({ at, granted: { participant: "a", via: "" }, models: "level-use-use-use", how: "turn", fence: "17", fences: 1, place: 1, waiting: 3, queue: [{}, {}, {}], ...over });

test("a grant is told: to whom, by what way, among how many", () => {
  assert.equal(grantText(grant()), `grant, fence 17, ${time}: to a, in its turn. It came first of 3 (models level-use-use-use).`);
  assert.equal(grantText(grant({ place: 2, fences: 3, retain: true })),
    `grant, fences 17 to 19, ${time}: to a, in its turn. It was at place 2 of 3 (models level-use-use-use). It may keep the token and enter again.`);
  assert.equal(grantText(grant({ place: 0, how: "", granted: { participant: "a", via: "gate" } })), `grant, fence 17, ${time}: to a (via gate), while 3 waited (models level-use-use-use).`);
  assert.equal(grantText(grant({ waiting: 1, queue: [] })), `grant, fence 17, ${time}: to a, in its turn. Nobody else waited.`);
  assert.match(grantText(grant({ outdated: true })), /The token went on before a change of the order had come to the holder\.$/);
});

test("an entry is told by what way it came, if that is known", () => {
  const e = { participant: "b", via: "", fence: "18", at };
  assert.equal(entryText({ ...e, how: "passing" }), `b entered at ${time}, fence 18, out of turn, while the token passed it on the way to another (Use).`);
  for (const how of ["", undefined, "constructor", "sideways"]) assert.equal(entryText({ ...e, how }), `b entered at ${time}, fence 18.`);
  assert.equal(entryText({ ...e, at: null }), "b entered, fence 18.");
});

test("a place is told with what puts it there, and only if the root says what", () => {
  const queue = [{ participant: "a", via: "", by: "" }, { participant: "b", via: "", by: "clock" }, { participant: "c", via: "", by: "" }, { participant: "d", via: "", by: "whim" }];
  assert.deepEqual(queue.map((_, i) => placeText(queue, i, 5)), ["a is at place 1 of 5.", "b is at place 2 of 5, behind a: its turn comes later.",
    "c is at place 3 of 5, behind b. The root does not say why.", "d is at place 4 of 5, behind c. The root does not say why."]);
  assert.equal(reason({ by: "priority", any: true, passed: true, patience: 2 }), "it is less important; any resource will do; passed over: nothing was heard of it lately; 2 that came later may go before it");
  assert.equal(reason({ by: "level", exhausted: true, patience: 0 }), "it is less important, or has waited for fewer; none that came later goes before it");
  assert.equal(reason({ by: "", patience: 0 }), "");
});

test("of an entry without a decision it is said since when there are any", () => {
  assert.match(unknownText("17", undefined), /no decision about this lock has come to this page/);
  assert.equal(unknownText("16", grant()), `Why is no longer known: this page has decisions about this lock since ${time}, fence 17.`);
  assert.match(unknownText("99", grant()), /that of this entry has not come to this page. It has decisions about this lock since .*, fence 17\.$/);
});
