import test from "node:test";
import assert from "node:assert/strict";
import { placeCard } from "../place.js";

const view = { width: 1000, height: 800 }, card = { width: 300, height: 200 };
const box = (left, top, width, height) => ({ left, top, right: left + width, bottom: top + height });

test("a card goes next to its target, where it is to and where there is room", () => {
  const target = box(400, 300, 100, 100);
  assert.deepEqual(placeCard(target, card, view), { left: 400, top: 412 });
  assert.deepEqual(placeCard(target, card, view, ["left"]), { left: 88, top: 300 });
  assert.deepEqual(placeCard(target, card, view, ["above"]), { left: 400, top: 88 });
  assert.deepEqual(placeCard(box(600, 550, 380, 100), card, view), { left: 288, top: 550 });
  assert.deepEqual(placeCard(box(10, 600, 300, 190), card, view), { left: 322, top: 588 });
});

test("on a phone it covers as little of the target as it can, and stays in the window", () => {
  const phone = { width: 390, height: 844 }, wide = { width: 366, height: 240 };
  assert.deepEqual(placeCard(box(8, 16, 374, 700), wide, phone), { left: 12, top: 592 });
  assert.deepEqual(placeCard(box(8, 300, 374, 530), wide, phone), { left: 12, top: 48 });
  assert.deepEqual(placeCard(box(8, 100, 374, 740), wide, phone), { left: 12, top: 12 });
  for (const target of [box(0, 0, 0, 0), box(-50, -900, 10, 10), box(380, 2000, 50, 50)]) {
    const { left, top } = placeCard(target, wide, phone);
    assert.ok(left >= 0 && left + 366 <= 390 && top >= 0 && top + 240 <= 844, `${left}, ${top}`);
  }
});
