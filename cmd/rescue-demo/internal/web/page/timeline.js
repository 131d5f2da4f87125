// Who had which frequency when, and under which priority model.
import { h } from "/base/dom.js";
import { entry, explain } from "/base/explain.js";
import { key } from "/base/locks.js";
import { fit, palette } from "./canvas.js";
import { words } from "./incidents.js";
import { numberOf } from "./model.js";
import { called } from "./panels.js";

const ROW = 38, TOP = 26, BOTTOM = 36, SIGNS = 26; // of BOTTOM, the signs of incidents are so far above the end
const WINDOW = 120_000; // ms that are shown of a longer run
const TOLD = 5; // incidents in words
const HEIGHTS = [0.4, 0.58, 0.78, 1]; // of the bars, by class: color is not the only sign

/** span is what is shown: {from, to} in ms since 1970. */
export function span(scene, now) {
  const end = scene.start + scene.duration * 1000;
  if (end - scene.start <= WINDOW) return { from: scene.start, to: end };
  const to = Math.min(end, Math.max(now + WINDOW / 12, scene.start + WINDOW));
  return { from: to - WINDOW, to };
}

/** ticks are the round times between from and to, in seconds of the run, at most about n. */
export function ticks(scene, from, to, n) {
  const least = (to - from) / 1000 / n;
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300].find((s) => s >= least) ?? 600;
  const all = [];
  for (let s = Math.ceil((from - scene.start) / 1000 / step) * step; s <= (to - scene.start) / 1000; s += step) all.push(s);
  return all;
}

// scale is how a timeline of a width is drawn at a time.
function scale(scene, wall, width) {
  const narrow = width < 600, left = narrow ? 62 : 104;
  const { from, to } = span(scene, wall);
  return { from, to, narrow, left, x: (ms) => left + ((ms - from) / (to - from)) * (width - left - 8) };
}

/** drawTimeline draws it; aim is the bar that the keys are at, or null. */
export function drawTimeline(canvas, run, wall, aim) {
  const { scene } = run, p = palette();
  const { c, width, height } = fit(canvas, TOP + ROW * scene.frequencies.length + BOTTOM);
  const { from, to, narrow, left, x } = scale(scene, wall, width);
  const t = { c, p, width, height, left, x, aim };
  const now = Math.min(wall, scene.start + scene.duration * 1000);
  phases(t, run, from, to, now, narrow);
  axis(t, scene, from, to, narrow);
  scene.frequencies.forEach((name, i) => row(t, run, name, TOP + i * ROW, now));
  incidents(t, run, now);
  c.strokeStyle = p.text;
  c.lineWidth = 1.5;
  line(c, t.x(now), TOP - 4, t.x(now), height - BOTTOM + 4);
}

function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

// Each phase has its words on top; the switch that is to come is dashed.
function phases({ c, p, x, height, left }, run, from, to, now, narrow) {
  const { scene } = run;
  const all = run.phases().map((f) => ({ ...f, sure: true }));
  const due = scene.start + scene.switchAt * 1000;
  if (!all.some((f) => f.fair) && due > now) all.push({ from: due, fair: true, sure: false });
  c.textBaseline = "top";
  c.textAlign = "left";
  all.forEach((phase, i) => {
    const begin = Math.max(phase.from, from), end = Math.min(all[i + 1]?.from ?? to, to);
    if (end <= begin) return;
    if (phase.fair) {
      c.fillStyle = p.accent;
      c.globalAlpha = phase.sure ? 0.1 : 0.04;
      c.fillRect(x(begin), TOP - 4, x(end) - x(begin), height - TOP - BOTTOM + 8);
      c.globalAlpha = 1;
    }
    c.strokeStyle = c.fillStyle = p.accent;
    if (i > 0 && phase.from >= from) {
      c.lineWidth = 2;
      c.setLineDash(phase.sure ? [] : [5, 4]);
      line(c, x(begin), 2, x(begin), height - BOTTOM + 4);
      c.setLineDash([]);
    }
    c.font = `650 12px ${p.sans}`;
    const long = phase.fair ? "Fair: everybody in turn" : "Level: the most important first";
    const text = [long + (phase.sure ? "" : ", to come"), phase.fair ? "Fair" : "Level"].find((s) => c.measureText(s).width < x(end) - x(begin) - 8);
    if (text) c.fillText(text, Math.max(x(begin), left) + (i > 0 ? 6 : 0), 4);
  });
}

// What happened: outages over the rows, and the rest below them. A sign has its word if there is room.
function incidents(t, run, now) {
  const { c, p, x, left, height, width } = t;
  for (const e of run.incidents.all) if (e.kind === "outage") stripes(t, Math.max(x(e.from), left), x(e.to ?? now));
  c.font = `600 11px ${p.sans}`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const signs = run.incidents.all.filter((e) => e.kind !== "outage" && x(e.at) >= left);
  signs.forEach((e, i) => {
    const at = x(e.at), y = height - SIGNS, number = numberOf(e.who) || e.who;
    const text = e.kind === "killed" ? `${number} killed` : `root ${number}`;
    c.fillStyle = e.kind === "killed" ? p.bad : p.accent;
    sign(c, e.kind, at, y);
    const next = i + 1 < signs.length ? x(signs[i + 1].at) - 8 : width;
    if (at + 7 + c.measureText(text).width < next) c.fillText(text, at + 7, y);
  });
}

// sign is a diamond for who was killed, and a triangle for a new root.
function sign(c, kind, x, y) {
  const corners = kind === "killed" ? [[0, -5], [5, 0], [0, 5], [-5, 0]] : [[0, -5], [5, 4], [-5, 4]];
  c.beginPath();
  for (const [dx, dy] of corners) c.lineTo(x + dx, y + dy);
  c.closePath();
  c.fill();
}

function stripes({ c, p, height }, from, to) {
  if (to <= from) return;
  c.save();
  c.beginPath();
  c.rect(from, TOP - 4, to - from, height - TOP - BOTTOM + 8);
  c.clip();
  c.strokeStyle = p.bad;
  c.globalAlpha = 0.5;
  c.lineWidth = 1.5;
  for (let at = from - height; at < to; at += 8) line(c, at, height, at + height, 0);
  c.restore();
}

function axis({ c, p, x, height, width, left }, scene, from, to, narrow) {
  c.font = `12px ${p.sans}`;
  c.fillStyle = p.muted;
  c.strokeStyle = p.line;
  c.lineWidth = 1;
  c.textBaseline = "alphabetic";
  for (const s of ticks(scene, from, to, narrow ? 5 : 12)) {
    const at = x(scene.start + s * 1000);
    if (at < left - 1) continue;
    line(c, at, TOP - 4, at, height - BOTTOM + 4);
    c.textAlign = at > width - 24 ? "right" : "center";
    c.fillText(`${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`, at, height - 6);
  }
}

function row({ c, p, x, left, aim }, run, name, top, now) {
  c.font = `600 13px ${p.sans}`;
  c.fillStyle = p.text;
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillText(left < 100 ? name : `${name} MHz`, 0, top + ROW / 2);
  for (const bar of run.bars(name, now)) {
    const x0 = Math.max(x(bar.from), left), x1 = x(bar.end);
    if (x1 <= left) continue;
    const w = Math.max(x1 - x0 - 1, 1.5), h = (ROW - 8) * HEIGHTS[bar.class];
    const y = top + ROW - 4 - h;
    c.fillStyle = p["c" + bar.class];
    c.fillRect(x0, y, w, h);
    if (same(bar, aim)) {
      c.strokeStyle = p.accent;
      c.lineWidth = 2;
      c.strokeRect(x0 - 1, top + 2, w + 2, ROW - 4);
    }
    if (bar.lost) {
      c.strokeStyle = p.bad;
      c.lineWidth = 2;
      line(c, x1 - 4, y - 3, x1 + 2, y + 3);
      line(c, x1 + 2, y - 3, x1 - 4, y + 3);
    }
    const text = numberOf(bar.robot);
    c.font = `700 11px ${p.sans}`;
    if (w > c.measureText(text).width + 3) {
      c.fillStyle = p["on-c" + bar.class];
      c.textAlign = "center";
      c.fillText(text, x0 + w / 2, y + h / 2 + 0.5);
    }
  }
}

const same = (a, b) => b && a.frequency === b.frequency && a.fence === b.fence;

const NEAR = 4; // pixels by which a click may miss a bar

/** barAt is the bar at a place of a timeline of a width, or the nearest beside it, or undefined. */
export function barAt(run, wall, width, px, py) {
  const { x, left } = scale(run.scene, wall, width);
  const name = run.scene.frequencies[Math.floor((py - TOP) / ROW)];
  if (name === undefined || px < left - NEAR) return undefined;
  const far = (b) => Math.max(x(b.from) - px, px - x(b.end), 0);
  return run.bars(name, wall).filter((b) => far(b) <= NEAR).sort((a, b) => far(a) - far(b)).at(0);
}

/** barBeside is where an arrow key leads from a bar, or from none, among those that are shown. */
export function barBeside(run, wall, bar, key) {
  const { from } = span(run.scene, wall), { frequencies } = run.scene;
  const bars = (i) => run.bars(frequencies[i], wall).filter((b) => b.end > from);
  const row = frequencies.indexOf(bar?.frequency), at = row < 0 ? -1 : bars(row).findIndex((b) => same(b, bar));
  if (at < 0) return frequencies.map((_, i) => bars(i).at(-1)).find(Boolean) ?? null;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0, other = row + ({ ArrowUp: -1, ArrowDown: 1 }[key] ?? 0);
  if (other === row) return bars(row)[at + step] ?? bar;
  const beside = other in frequencies ? bars(other) : [];
  return beside.findLast((b) => b.from <= bar.from) ?? beside[0] ?? bar;
}

/** barText names a bar. */
export const barText = (bar) => `${called(bar.robot, "")} on ${bar.frequency} MHz, fence ${bar.fence}`;

/** explainBar explains why a robot had a frequency. */
export function explainBar(run, bar) {
  explain(["Why ", h("b", {}, called(bar.robot, "")), ` got ${bar.frequency} MHz`],
    ...entry({ ...bar, participant: bar.robot, via: "", at: bar.from }, run.locks, key(run.lockTopic, bar.frequency), called));
}

/** tell says in words what the timeline shows, for who cannot see it. */
export function tell(run, now) {
  const last = run.scene.frequencies.map((name) => {
    const last = run.bars(name, now).slice(-5).map((b) => `robot ${numberOf(b.robot)}`);
    return `${name} MHz, the last in order: ${last.join(", ") || "nobody"}`;
  });
  return [...last, ...words(run.incidents, run.scene.start).slice(-TOLD)].join(". ");
}
