// The page of two runs of one scenario under two models, live or replayed: both timelines under one clock, and what
// differs. It only looks.
import { connect, loadConfig } from "/base/connection.js";
import { h, setAttribute, setText } from "/base/dom.js";
import { Freshness } from "/base/freshness.js";
import { encodeLevel, parseTopic, rootOf } from "/base/levels.js";
import { askPassword, statusBadge } from "/base/status.js";
import { againWhen } from "./again.js";
import { openBoth, play } from "./both.js";
import { HEADINGS, alike, compare } from "./differences.js";
import { Rescue, rule } from "./model.js";
import { drawTimeline, tell } from "./timeline.js";

const DRAW = 200; // ms between two drawings

const $ = (id) => document.getElementById(id);
const config = await loadConfig();
const { domains, lockTopic } = config.page;
const text = new TextDecoder();
const badge = statusBadge();
$("badge").append(badge.element, " ", badge.age);
let runs, player = null, online = false, trouble = "";
const now = () => player?.now ?? Date.now();

// reset forgets what has happened, but not where.
function reset() {
  runs = domains.map((_, i) => {
    const run = new Rescue(lockTopic), scene = runs?.[i].scene;
    run.connected(!!config.replay, 0);
    if (scene) run.scene = { ...scene, over: false };
    return run;
  });
}
reset();

const sides = domains.map((domain, i) => {
  const name = h("span", {}), words = h("span", { class: "muted small" });
  const canvas = h("canvas", { role: "img" });
  const figures = h("p", { class: "muted small num" });
  $("sides").append(h("section", { class: "card", "data-side": i, "aria-label": `Run ${i + 1}` }, h("h2", {}, `${["First", "Second"][i]} run: `, name, words), h("div", {}, canvas), figures));
  return { name, words, canvas, figures };
});

const rows = compare(null, null).map(({ name }, i) => {
  const fields = HEADINGS.map(() => ["", "", "difference"].map((cls) => h("span", { class: cls })));
  return { fields, element: h("tr", {}, h("th", { scope: "row" }, h("span", { class: "robot c" + i }, name)), ...fields.map((f) => h("td", {}, ...f))) };
});
$("differences").append(h("thead", {}, h("tr", {}, ...["saw", ...HEADINGS].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...rows.map((r) => r.element)));

function live() {
  const roots = domains.map((domain) => rootOf({ ...config, domain })), lock = encodeLevel(lockTopic), fresh = new Freshness();
  const lookForAnother = againWhen(config, () => online);
  connect(config, {
    filters: Object.fromEntries(roots.flatMap((root) => [
      [`${root}/show/+`, 0], [`${root}/presence/+`, 0], [`${root}/lock/${lock}/+/state`, 1], [`${root}/lock/${lock}/view`, 1], [`${root}/lock/${lock}/events`, 0],
    ])),
    onMessage(topic, payload) {
      roots.forEach((root, i) => {
        const levels = parseTopic(root, topic);
        if (levels && runs[i].apply(levels, text.decode(payload), Date.now()) === "another") location.reload();
      });
    },
    onStatus(status) {
      online = status.state === "connected";
      const begun = fresh.status(status);
      for (const run of runs) {
        run.connected(online, Date.now());
        if (begun) run.begin();
      }
      badge.show(status);
      if (!online) lookForAnother();
    },
    askPassword,
  });
  setInterval(() => fresh.show(badge.age, Date.now()), DRAW);
}

async function replayed() {
  badge.show({ state: "replay", text: "a recording", session: 0 });
  try {
    const { player: clock, element } = play(await openBoth(), {
      onMessage: ([side, ...levels], payload, when) => runs[side].apply(levels, text.decode(payload), when),
      onReset: reset,
    });
    player = clock;
    $("sides").before(element);
  } catch (error) {
    trouble = `The recordings cannot be shown: ${error.message}.`;
  }
}

function draw() {
  notice();
  const at = now();
  runs.forEach((run, i) => run.scene && drawSide(run, sides[i], at));
  const [first, second] = runs;
  if (first.scene && second.scene) {
    const elapsed = Math.min(first.scene.duration, Math.max(0, (first.theirs(first.asOf(at)) - first.scene.start) / 1000));
    const minutes = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;
    setText($("clock"), `${minutes(elapsed)} of ${minutes(first.scene.duration)}`);
    setText($("rule"), alike(first.scene, second.scene) ? `${first.scene.robots} robots walk the same ways in both runs. Only the models of the lock differ.`
      : "The two are of different scenarios, so more differs than the models of the lock.");
  }
  compare(runs[0].figures, runs[1].figures).forEach(({ fields }, row) =>
    fields.forEach((field, column) => field.forEach((value, line) => setText(rows[row].fields[column][line], value))));
}

function drawSide(run, side, at) {
  const until = run.theirs(run.asOf(at)), models = run.view?.models ?? "";
  setText(side.name, models || "–");
  setText(side.words, rule(models));
  drawTimeline(side.canvas, run, until, null);
  setAttribute(side.canvas, "aria-label", tell(run, until));
  const f = run.figures;
  setText(side.figures, f ? `${f.entries} entries, ${f.overlaps} overlaps, ${run.survivors.filter((s) => s.found).length} of ${run.survivors.length} survivors found, ${f.messagesPerEntry.toFixed(1)} messages per entry` : "");
}

function notice() {
  const over = runs.every((run) => run.scene?.over);
  const said = trouble || (config.replay ? "" : over ? "The runs are over; this is how they ended. Start the demo again, and the page goes on." : !online ? "No connection to the broker." : "");
  $("notice").hidden = !said;
  setText($("notice"), said);
}

if (config.replay) await replayed();
else live();
setInterval(draw, DRAW);
globalThis.comparison = { get runs() { return runs; }, get player() { return player; } }; // for a look from the browser's console, and for tests
