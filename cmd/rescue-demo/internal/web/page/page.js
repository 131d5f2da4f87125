// The page of a run: an MQTT client that reads, draws, and sends sealed commands.
import { connect, loadConfig } from "/base/connection.js";
import { clock, setAttribute, setText } from "/base/dom.js";
import { encodeLevel, parseTopic, rootOf } from "/base/levels.js";
import { Freshness } from "/base/freshness.js";
import { askPassword, statusBadge } from "/base/status.js";
import { againWhen } from "./again.js";
import { Commands, Global } from "./controls.js";
import { readFrame } from "./frame.js";
import { drawMap } from "./map.js";
import { Rescue, rule } from "./model.js";
import { Figures, Frequency, Robots } from "./panels.js";
import { poolOf } from "./pool.js";
import { Arrivals, Queue, explainWait, leave } from "./queue.js";
import { barAt, barBeside, barText, drawTimeline, explainBar, tell } from "./timeline.js";
import { Tour } from "./tour.js";

// How often what is drawn, ms: often enough for the eye, and the robots may have to
// share a small machine with the browser.
const NOW = 100, PAST = 300;

const $ = (id) => document.getElementById(id);
const config = await loadConfig();
const root = rootOf(config), lock = encodeLevel(config.page.lockTopic);
const run = new Rescue(config.page.lockTopic);
const badge = statusBadge();
$("badge").append(badge.element, " ", badge.age);
const fresh = new Freshness();
const text = new TextDecoder();
const clamp = (v, most) => Math.min(most, Math.max(0, v));
const lookForAnother = againWhen(config, () => online);
let online = false, map = null, aim = null; // aim: where Enter drops a survivor, while the map has the focus

const connection = connect(config, {
  filters: {
    [`${root}/show/+`]: 0,
    [`${root}/presence/+`]: 0,
    [`${root}/lock/${lock}/+/state`]: 1,
    [`${root}/lock/${lock}/view`]: 1,
    [`${root}/lock/${lock}/events`]: 0,
    [`${root}/data/+/video/#`]: 0,
    [`${root}/control/answer`]: 0,
  },
  onMessage(topic, payload) {
    const levels = parseTopic(root, topic);
    if (!levels) return;
    if (levels[0] === "data") {
      const frame = readFrame(payload);
      if (frame) run.picture(frame, Date.now());
    } else if (levels[0] === "control") {
      commands?.answered(text.decode(payload));
    } else if (run.apply(levels, text.decode(payload), Date.now()) === "another") {
      location.reload(); // nothing of the last run belongs to this one
    }
  },
  onStatus(status) {
    online = status.state === "connected";
    run.connected(online, Date.now());
    badge.show(status);
    if (fresh.status(status)) run.begin();
    if (!online) lookForAnother();
  },
  askPassword,
});

// Browsers seal nothing for a page that was not served to their own machine.
const may = config.page.key && globalThis.crypto?.subtle;
const commands = may ? new Commands(config.page.key, (m) => connection.publish(`${root}/control/request`, m), $("answers")) : null;
const send = commands && ((words, command) => commands.send(words, command));
$("no-controls").hidden = !!may;
$("hint").hidden = !may;
const global = may ? new Global($("global"), send, run) : null;
const robots = new Robots($("robots"), send && ((what, robot) => send(`${what} ${robot}`, { do: what, robot })));
const figures = new Figures($("numbers"), $("classes").tBodies[0]);
const cards = new Map(), queue = new Queue($("queue"), (w) => explainWait(run, w, Date.now())), arrivals = new Arrivals();

function drop(x, y) {
  if (!send || !map || !run.live(Date.now())) return;
  send("one more survivor", { do: "drop", x: Math.round(x * 10) / 10, y: Math.round(y * 10) / 10 });
}

if (may) {
  const canvas = $("map");
  canvas.classList.add("may");
  canvas.tabIndex = 0;
  canvas.addEventListener("click", (e) => {
    const x = (e.offsetX - map.left) / map.scale, y = run.scene.height - e.offsetY / map.scale;
    if (x >= 0 && x <= run.scene.width && y >= 0 && y <= run.scene.height) drop(x, y);
  });
  canvas.addEventListener("focus", () => (aim ??= run.scene && { x: run.scene.center[0], y: run.scene.center[1] }));
  canvas.addEventListener("blur", () => (aim = null));
  canvas.addEventListener("keydown", (e) => {
    if (!aim) return;
    const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key] ?? [0, 0];
    const step = e.shiftKey ? 50 : 10; // yards
    aim = { x: clamp(aim.x + step * x, run.scene.width), y: clamp(aim.y + step * y, run.scene.height) };
    if (e.key === "Enter") drop(aim.x, aim.y);
    if (x || y || e.key === "Enter") e.preventDefault();
  });
}

const timeline = $("timeline");
const past = () => run.theirs(run.asOf(Date.now()));
let bar = null; // that the keys are at
function aimAt(next) {
  bar = next;
  setText($("bar"), bar ? barText(bar) : "");
  times(Date.now());
}
timeline.addEventListener("click", (e) => {
  const hit = run.scene && barAt(run, past(), timeline.clientWidth, e.offsetX, e.offsetY);
  if (hit) explainBar(run, hit);
});
timeline.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && bar) explainBar(run, bar);
  else if (e.key.startsWith("Arrow") && run.scene) aimAt(barBeside(run, past(), bar, e.key));
  else return;
  e.preventDefault();
});

const tour = new Tour({
  run, may: !!may, button: $("tour-button"), before: document.querySelector("main"),
  placeOf(name) {
    const r = run.robots.find((r) => r.name === name), box = $("map").getBoundingClientRect();
    if (!r || !map) return null;
    const { x, y } = run.place(r, Date.now());
    return { x: box.left + map.left + x * map.scale, y: box.top + (run.scene.height - y) * map.scale };
  },
});

// sign says on the page whether it shows how things are.
function sign(now) {
  fresh.show(badge.age, now);
  if (run.scene && fresh.live && !run.live(now) && !run.scene.over) {
    document.body.dataset.fresh = "stale";
    setText(badge.age, `the demo says nothing: as of ${clock(run.told)}`);
  }
}

function area(now) {
  map = drawMap($("map"), run, now, Math.max(260, Math.min(innerHeight * 0.51, 760)), aim);
}

function times(now) {
  now = run.theirs(run.asOf(now));
  drawTimeline(timeline, run, now, document.activeElement === timeline ? bar : null);
  setAttribute(timeline, "aria-label", tell(run, now));
}

function words(at) {
  const now = run.asOf(at); // what is later nobody knows
  const { scene, view } = run;
  const elapsed = Math.min(scene.duration, Math.max(0, (run.theirs(now) - scene.start) / 1000));
  const minutes = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;
  setText($("clock"), `${minutes(elapsed)} of ${minutes(scene.duration)}`);
  setText($("rule"), `${scene.robots} robots send pictures and share ${scene.frequencies.length} radio frequencies. ${rule(view?.models)}`);
  setText($("root"), `root: ${view?.root ?? "–"}`);
  $("root").dataset.root = view?.root ?? "";
  frequencies(at, now);
  robots.show(run, at);
  figures.show(run.figures, run.survivors);
  global?.show(view, run.live(at));
  setAttribute($("map"), "aria-label", `${run.robots.filter((r) => !r.dead).length} robots, ${run.survivors.filter((s) => s.found).length} of ${run.survivors.length} survivors found`);
  notice(scene);
}

function frequencies(at, now) {
  const all = run.scene.frequencies.map((name) => run.frequency(name, at));
  const slides = [];
  for (const f of all) {
    if (!cards.has(f.name)) {
      cards.set(f.name, new Frequency(f.name));
      $("frequencies").append(cards.get(f.name).element);
    }
    const who = arrivals.next(f), sign = who && queue.chipOf(who.participant, who.via);
    if (sign) slides.push([leave(sign), cards.get(f.name)]);
    cards.get(f.name).show(f, now, run.theirs(now));
  }
  const pool = poolOf(all);
  queue.show(pool, now, Math.min(now, ...all.map((f) => f.heard)));
  setAttribute($("queue"), "data-doubt", pool.doubt ? "old" : null);
  for (const [arrive, card] of slides) arrive(card.target);
}

function notice(scene) {
  const said = scene.over ? "The run is over; this is how it ended. Start the demo again, and the page goes on."
    : !online ? "No connection to the broker. Without one nobody gets a frequency, and who had one loses it within a second."
    : run.figures?.act ? `Chaos: ${run.figures.act}.` : "";
  $("notice").hidden = !said;
  setText($("notice"), said);
}

// Map and words are drawn together, so that they agree.
const parts = [{ draw: (now) => (sign(now), area(now), words(now), tour.show(now)), every: NOW }, { draw: times, every: PAST }];

function frame(at) {
  requestAnimationFrame(frame);
  if (!run.scene) return setText($("rule"), online ? "Waiting for a run." : "");
  for (const part of parts) {
    if (at - (part.drawn ?? -Infinity) < part.every - 8) continue; // or it would wait for one more frame
    part.drawn = at;
    part.draw(Date.now());
  }
}
requestAnimationFrame(frame);
globalThis.rescue = { run }; // for a look from the browser's console, and for tests
