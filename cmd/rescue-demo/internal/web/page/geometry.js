// Where radio does not reach.

const FAR = 60; // times as far from the center as the ruin: beyond any area

/** shadowOf is the polygon, counter-clockwise, of a ruin [west, south, east, north] and all behind it as seen from the center. */
export function shadowOf([west, south, east, north], [cx, cy]) {
  const corners = [[west, south], [east, south], [east, north], [west, north]];
  return hull([...corners, ...corners.map(([x, y]) => [cx + FAR * (x - cx), cy + FAR * (y - cy)])]);
}

/** hull is the convex hull of points, counter-clockwise (Andrew's monotone chain). */
export function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const chain = (list) => {
    const out = [];
    for (const p of list) {
      while (out.length >= 2 && turn(out.at(-2), out.at(-1), p) <= 0) out.pop();
      out.push(p);
    }
    return out.slice(0, -1);
  };
  return [...chain(sorted), ...chain(sorted.reverse())];
}

const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
