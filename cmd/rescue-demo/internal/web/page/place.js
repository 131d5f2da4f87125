// Where a card goes next to what it is about.

const GAP = 12; // pixels

/**
 * placeCard is where a card of a size goes in a window so that it does not cover a target, {left, top}: next to it on
 * the first of sides where it fits, or else at that edge of the window where it covers less. All in pixels; a box is
 * {left, top, right, bottom}.
 */
export function placeCard(target, { width, height }, view, sides = []) {
  const clamp = (v, size, most) => Math.max(GAP, Math.min(v, most - size - GAP));
  const left = clamp(target.left, width, view.width), top = clamp(target.top, height, view.height);
  const places = {
    below: { left, top: target.bottom + GAP },
    left: { left: target.left - GAP - width, top },
    right: { left: target.right + GAP, top },
    above: { left, top: target.top - GAP - height },
  };
  const fits = (p) => p.left >= 0 && p.top >= 0 && p.left + width <= view.width && p.top + height <= view.height;
  const side = [...sides, "below", "left", "right", "above"].find((s) => fits(places[s]));
  if (side) return places[side];
  const covers = (p) => Math.max(0, Math.min(p.top + height, target.bottom) - Math.max(p.top, target.top));
  const bottom = { left, top: view.height - height - GAP }, above = { left, top: GAP };
  return covers(bottom) <= covers(above) ? bottom : above;
}
