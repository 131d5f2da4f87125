// Who is whose child in the spanning tree of a lock topic, and where to draw it.

/**
 * treeOf returns the members of a topic as a list of {id, parent, role, candidate,
 * priority, alive}. A dead member is listed only while the view names it as the root, or
 * it has a child.
 */
export function treeOf(locks, topic) {
  const members = locks.members.get(topic) ?? new Map();
  const view = locks.views.get(topic);
  const list = new Map();
  for (const m of members.values()) {
    const presence = locks.participants.get(m.participant);
    if (!presence?.alive || presence.incarnation !== m.incarnation) continue;
    const root = view ? view.root === m.participant : m.role === "root";
    list.set(m.participant, {
      id: m.participant, parent: root ? "" : m.parent, role: root ? "root" : m.role === "root" ? "member" : m.role,
      candidate: m.candidate, priority: m.priority, alive: true,
    });
  }
  const needed = new Set([...list.values()].map((m) => m.parent).filter(Boolean));
  if (view) needed.add(view.root);
  for (const id of needed) {
    if (!id || list.has(id)) continue;
    const presence = locks.participants.get(id);
    list.set(id, {
      id, parent: "", role: view?.root === id ? "root" : "member", candidate: members.get(id)?.candidate ?? false,
      priority: members.get(id)?.priority ?? 0, alive: presence?.alive === true,
    });
  }
  return [...list.values()].sort((a, b) => a.priority - b.priority || (a.id < b.id ? -1 : 1));
}

// DEEPEST bounds the depth of a tree as it is drawn: what is below stands beside it.
const DEEPEST = 500;

/** forest links members by parent: {roots, loose}. A member of a cycle, or below nobody, is loose. */
export function forest(members) {
  const nodes = new Map(members.map((m) => [m.id, { ...m, children: [], depth: 0, leaves: 1 }]));
  const roots = [], loose = [];
  for (const n of nodes.values()) {
    if (n.role === "root") roots.push(n);
    else (nodes.get(n.parent)?.children ?? loose).push(n);
  }
  const seen = new Set();
  const walk = (n, depth) => {
    seen.add(n.id);
    n.depth = depth;
    n.children = depth < DEEPEST ? n.children.filter((c) => !seen.has(c.id)) : [];
    for (const c of n.children) walk(c, depth + 1);
    n.leaves = Math.max(1, n.children.reduce((sum, c) => sum + c.leaves, 0));
  };
  for (const n of [...roots, ...loose]) walk(n, 0);
  for (const n of nodes.values()) {
    if (seen.has(n.id)) continue; // a cycle: break it here
    loose.push(n);
    walk(n, 0);
  }
  return { roots, loose };
}

const ROW = 40, INDENT = 28, LEVEL = 92, MARGIN = 16, RING = 76;

/**
 * layout places a tree in a given width. It returns {kind, width, height, nodes: [{…,
 * x, y, side}], edges: [{from, to, points}]}. kind is "down" where names fit side by
 * side, "rows" where they do not (one below the other, as in a list of files), and
 * "rings" for trees of more than a hundred or so.
 */
export function layout(members, width, nameWidth) {
  const { roots, loose } = forest(members);
  const tops = [...roots, ...loose];
  const leaves = tops.reduce((sum, n) => sum + n.leaves, 0);
  if (tops.length === 0) return { kind: "down", width, height: 60, nodes: [], edges: [] };
  if (leaves * nameWidth <= width - 2 * MARGIN) return down(tops, leaves, width);
  return members.length <= 100 ? rows(tops, width) : rings(tops, leaves);
}

function down(tops, leaves, width) {
  const nodes = [], edges = [];
  const slot = (width - 2 * MARGIN) / leaves;
  let height = 0;
  const place = (n, left) => {
    n.y = MARGIN + 24 + n.depth * LEVEL;
    height = Math.max(height, n.y + 44);
    let x = left;
    for (const c of n.children) {
      place(c, x);
      x += c.leaves * slot;
    }
    n.x = n.children.length ? (n.children[0].x + n.children.at(-1).x) / 2 : left + slot / 2;
    nodes.push(n);
    for (const c of n.children) {
      const middle = (n.y + c.y) / 2;
      edges.push({ from: c.id, to: n.id, points: [[c.x, c.y], [c.x, middle], [n.x, middle], [n.x, n.y]] });
    }
  };
  let left = MARGIN;
  for (const n of tops) {
    place(n, left);
    left += n.leaves * slot;
  }
  return { kind: "down", width, height, nodes, edges };
}

function rows(tops, width) {
  const nodes = [], edges = [];
  const place = (n) => {
    n.x = MARGIN + 12 + n.depth * INDENT;
    n.y = MARGIN + 12 + nodes.length * ROW;
    nodes.push(n);
    for (const c of n.children) {
      place(c);
      edges.push({ from: c.id, to: n.id, points: [[c.x, c.y], [n.x, c.y], [n.x, n.y]] });
    }
  };
  tops.forEach(place);
  return { kind: "rows", width, height: nodes.length * ROW + 2 * MARGIN, nodes, edges };
}

function rings(tops, leaves) {
  const nodes = [], edges = [];
  const single = tops.length === 1;
  let deepest = 0, slot = 0;
  const place = (n, depth) => {
    deepest = Math.max(deepest, depth);
    const first = slot;
    for (const c of n.children) place(c, depth + 1);
    if (n.children.length === 0) slot++;
    n.angle = (((first + slot) / 2) / leaves) * 2 * Math.PI - Math.PI / 2;
    n.ring = depth;
    nodes.push(n);
  };
  for (const n of tops) place(n, single ? 0 : 1);
  // The outermost ring has room for a dot of each leaf.
  const step = Math.max(RING, (leaves * 13) / (2 * Math.PI) / Math.max(1, deepest));
  const size = 2 * (step * deepest + 48);
  for (const n of nodes) {
    n.x = size / 2 + Math.cos(n.angle) * n.ring * step;
    n.y = size / 2 + Math.sin(n.angle) * n.ring * step;
    for (const c of n.children) edges.push({ from: c.id, to: n.id, points: [[c.x, c.y], [n.x, n.y]] });
  }
  return { kind: "rings", width: size, height: size, nodes, edges };
}

/** along returns the point at a part (0 to 1) of a line of points. */
export function along(points, part) {
  const lengths = points.slice(1).map((p, i) => Math.hypot(p[0] - points[i][0], p[1] - points[i][1]));
  let rest = part * lengths.reduce((a, b) => a + b, 0);
  for (const [i, length] of lengths.entries()) {
    if (rest <= length || i === lengths.length - 1) {
      const t = length === 0 ? 0 : Math.min(1, rest / length);
      const [a, b] = [points[i], points[i + 1]];
      return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t];
    }
    rest -= length;
  }
  return points[0];
}
