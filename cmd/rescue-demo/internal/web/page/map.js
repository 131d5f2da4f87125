// The area from above.
import { fit, palette } from "./canvas.js";
import { shadowOf } from "./geometry.js";
import { classOf } from "./model.js";

const LABEL = "600 12px ";

/** drawMap draws the run on the canvas as it is now, and where the keyboard aims. It returns the scale, for clicks. */
export function drawMap(canvas, run, now, tallest, aim) {
  const { scene } = run;
  const wide = canvas.parentElement.clientWidth;
  const scale = Math.min(wide / scene.width, tallest / scene.height);
  const { c, width } = fit(canvas, Math.round(scene.height * scale));
  const left = (width - scene.width * scale) / 2;
  const p = palette();
  const view = {
    c, p, scale,
    x: (x) => left + x * scale,
    y: (y) => (scene.height - y) * scale, // north is up
  };
  c.save();
  c.beginPath();
  c.rect(left, 0, scene.width * scale, scene.height * scale);
  c.clip();
  c.drawImage(ground(scene, scale, p), left, 0, scene.width * scale, scene.height * scale);
  const robots = run.robots.map((r) => ({ ...r, ...run.place(r, now), sends: run.sends(r.name, now), class: classOf(r.sees) }));
  for (const r of robots) sight(view, scene, r);
  for (const s of run.survivors) survivor(view, s, robots.some((r) => !r.dead && Math.hypot(r.x - s.x, r.y - s.y) <= scene.sight));
  for (const r of robots) if (r.sends) beam(view, scene, r, now);
  center(view, scene);
  for (const r of robots) robot(view, r);
  labels({ ...view, left, right: left + scene.width * scale }, robots);
  if (aim) cross(view, aim);
  c.restore();
  return { left, scale };
}

let kept = {}; // the ground as it was drawn last

// ground is what never moves: it is drawn once, and again when the page changes.
function ground(scene, scale, p) {
  const ratio = devicePixelRatio || 1;
  const key = [scene.start, scale, ratio, p.ground].join();
  if (kept.key === key) return kept.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(scene.width * scale * ratio);
  canvas.height = Math.ceil(scene.height * scale * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = p.ground;
  c.fillRect(0, 0, scene.width * scale, scene.height * scale);
  ruins({ c, p, scale, x: (x) => x * scale, y: (y) => (scene.height - y) * scale }, scene);
  kept = { key, canvas };
  return canvas;
}

function ruins({ c, p, x, y, scale }, scene) {
  c.beginPath();
  for (const ruin of scene.ruins) {
    const [first, ...rest] = shadowOf(ruin, scene.center);
    c.moveTo(x(first[0]), y(first[1]));
    for (const q of rest) c.lineTo(x(q[0]), y(q[1]));
    c.closePath();
  }
  c.fillStyle = p.shadow;
  c.fill(); // all at once: where two overlap it is no darker
  for (const [west, south, east, north] of scene.ruins) {
    c.fillStyle = p.ruin;
    c.fillRect(x(west), y(north), (east - west) * scale, (north - south) * scale);
    c.save();
    c.beginPath();
    c.rect(x(west), y(north), (east - west) * scale, (north - south) * scale);
    c.clip();
    c.strokeStyle = p.ground;
    c.globalAlpha = 0.35;
    c.lineWidth = 1;
    c.beginPath();
    for (let d = x(west) - (north - south) * scale; d < x(east); d += 7) {
      c.moveTo(d, y(south));
      c.lineTo(d + (north - south) * scale, y(north));
    }
    c.stroke();
    c.restore();
  }
}

function sight({ c, p, x, y, scale }, scene, r) {
  if (r.dead) return;
  c.beginPath();
  c.arc(x(r.x), y(r.y), scene.sight * scale, 0, 2 * Math.PI);
  c.fillStyle = p["c" + r.class];
  c.globalAlpha = r.sends ? 0.18 : 0.08;
  c.fill();
  c.globalAlpha = r.sends ? 0.9 : 0.45;
  c.strokeStyle = p["c" + r.class];
  c.lineWidth = r.sends ? 1.75 : 1;
  c.setLineDash(r.shadow || r.cut ? [4, 5] : []);
  c.stroke();
  c.setLineDash([]);
  c.globalAlpha = 1;
}

function survivor({ c, p, x, y }, s, seen) {
  const px = x(s.x), py = y(s.y);
  c.lineWidth = 1.75;
  if (s.found) {
    c.fillStyle = p.free;
    c.beginPath();
    c.arc(px, py, 5, 0, 2 * Math.PI);
    c.fill();
    c.strokeStyle = p.ground;
    c.beginPath(); // a tick
    c.moveTo(px - 2.4, py + 0.2);
    c.lineTo(px - 0.6, py + 2);
    c.lineTo(px + 2.6, py - 1.8);
    c.stroke();
    return;
  }
  c.strokeStyle = p.text;
  c.globalAlpha = seen ? 1 : 0.75;
  c.beginPath();
  c.arc(px, py, 4, 0, 2 * Math.PI);
  c.stroke();
  c.globalAlpha = 1;
}

function beam({ c, p, x, y }, scene, r, now) {
  const from = [x(r.x), y(r.y)], to = [x(scene.center[0]), y(scene.center[1])];
  c.lineCap = "round";
  c.strokeStyle = p.ground;
  c.lineWidth = 6;
  stroke(c, from, to);
  const silent = r.shadow || r.cut; // it has the frequency, but nothing gets through
  c.strokeStyle = p["c" + r.class];
  c.lineWidth = silent ? 2 : 3;
  c.setLineDash(silent ? [1, 8] : [9, 7]);
  c.lineDashOffset = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : -now / 40;
  stroke(c, from, to);
  c.setLineDash([]);
}

function stroke(c, from, to) {
  c.beginPath();
  c.moveTo(...from);
  c.lineTo(...to);
  c.stroke();
}

function label({ c, p }, text, px, py, color) {
  c.font = LABEL + p.sans;
  c.textAlign = "center";
  c.textBaseline = "middle";
  const w = c.measureText(text).width + 12;
  c.fillStyle = p.surface;
  c.strokeStyle = color;
  c.lineWidth = 1.25;
  c.beginPath();
  c.roundRect(px - w / 2, py - 10, w, 20, 10);
  c.fill();
  c.stroke();
  c.fillStyle = p.text;
  c.fillText(text, px, py + 0.5);
}

function center({ c, p, x, y }, scene) {
  const px = x(scene.center[0]), py = y(scene.center[1]);
  c.fillStyle = p.text;
  c.strokeStyle = p.ground;
  c.lineWidth = 2;
  c.beginPath();
  c.moveTo(px, py - 13);
  c.lineTo(px + 10, py + 8);
  c.lineTo(px - 10, py + 8);
  c.closePath();
  c.stroke();
  c.fill();
  c.font = `650 12px ${p.sans}`;
  c.textAlign = "center";
  c.textBaseline = "top";
  c.lineWidth = 4;
  c.strokeText("rescue center", px, py + 11);
  c.fillText("rescue center", px, py + 11);
}

function cross({ c, p, x, y }, aim) {
  const px = x(aim.x), py = y(aim.y);
  for (const [width, color] of [[5, p.ground], [2, p.accent]]) {
    c.lineWidth = width;
    c.strokeStyle = color;
    stroke(c, [px - 14, py], [px + 14, py]);
    stroke(c, [px, py - 14], [px, py + 14]);
  }
}

const SIZE = 12; // of a robot

/** pips are where the dots of a class are, from the middle of a robot: as many as it sees survivors. */
export const pips = (cls) => Array.from({ length: cls }, (_, i) => [(i - (cls - 1) / 2) * 4.2, 7]);

// labels has each frequency beside its robot, where it hides no other.
function labels(view, robots) {
  const places = robots.map((r) => [view.x(r.x), view.y(r.y)]);
  robots.forEach((r, i) => {
    if (!r.sends) return;
    const text = `${r.sends} MHz`;
    view.c.font = LABEL + view.p.sans;
    const half = view.c.measureText(text).width / 2 + 6;
    const [x, y] = labelPlace(places[i], half, places.filter((_, o) => o !== i), view);
    label(view, text, x, y, view.p["c" + r.class]);
  });
}

/** labelPlace is the middle of a label, half as wide as half: above a robot, or where it hides fewer of others. */
export function labelPlace([px, py], half, others, { left, right }) {
  const inside = (x) => Math.max(left + half, Math.min(right - half, x));
  const beside = SIZE + 4 + half;
  const all = [[inside(px), py - 25], [inside(px), py + 36], [px + beside, py], [px - beside, py]]
    .filter(([x, y]) => y > 12 && x - half >= left && x + half <= right);
  const hides = ([x, y]) => others.filter(([ox, oy]) => Math.abs(ox - x) < half + SIZE && Math.abs(oy - y) < 10 + SIZE).length;
  return all.reduce((best, next) => (hides(next) < hides(best) ? next : best));
}

function robot({ c, p, x, y }, r) {
  const px = x(r.x), py = y(r.y), size = SIZE;
  c.globalAlpha = r.dead ? 0.5 : 1;
  c.beginPath();
  c.arc(px, py, size, 0, 2 * Math.PI);
  c.fillStyle = r.dead ? p.muted : p["c" + r.class];
  c.fill();
  c.lineWidth = r.sends ? 2.5 : 1.5;
  c.strokeStyle = r.sends ? p.text : p.ground;
  c.stroke();
  c.fillStyle = r.dead ? p.surface : p["on-c" + r.class];
  c.font = `700 12px ${p.sans}`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  const shown = r.dead ? [] : pips(r.class);
  c.fillText(r.number, px, py + (shown.length ? -1.5 : 0.5));
  for (const [dx, dy] of shown) {
    c.beginPath();
    c.arc(px + dx, py + dy, 1.4, 0, 2 * Math.PI);
    c.fill();
  }
  c.globalAlpha = 1;
  const sign = r.dead ? "dead" : r.paused ? "paused" : r.cut ? "no radio" : r.shadow ? "in shadow" : "";
  if (!sign) return;
  c.font = `600 10.5px ${p.sans}`;
  c.textBaseline = "top";
  c.lineWidth = 3;
  c.strokeStyle = p.ground;
  c.strokeText(sign, px, py + size + 2);
  c.fillStyle = p.text;
  c.fillText(sign, px, py + size + 2);
}
