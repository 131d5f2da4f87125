// The board: an MQTT client that shows what the locks of a domain say of themselves.
import { loadConfig, connect } from "/base/connection.js";
import { statusBadge, askPassword } from "/base/status.js";
import { Freshness } from "/base/freshness.js";
import { rootOf, parseTopic } from "/base/levels.js";
import { entry, explain } from "/base/explain.js";
import { Locks, key, named } from "/base/locks.js";
import { treeOf } from "/base/tree.js";
import { TreeView } from "/base/treeview.js";
import { readLetter } from "/base/letters.js";
import { h, setText, onFrame, clock } from "/base/dom.js";
import { route, link, History, unnamed } from "./filter.js";
import { LockList } from "./list.js";
import { Detail } from "./detail.js";
import { People } from "./people.js";
import { Timeline } from "./timeline.js";
import { openRecording, startReplay, momentOf } from "./replay.js";
import { readRecording } from "/base/recording.js";

const SETTLED = 2000; // ms without a retained message after which a broker has said what it retains
const LATE = 500; // ms after which a letter of a replay is not drawn any more
const PAUSE = 200; // ms between two drawings of what is read
const LETTERS = 300; // lock messages per second above which none are drawn: nobody could follow them
const REST = 5000; // ms for which they are not read then
const SILENCE = 8000; // ms without a letter after which the broker is taken to keep them

const $ = (id) => document.getElementById(id);
const config = await loadConfig();
const root = rootOf(config);
let locks = new Locks();
let history = new History();
let connection = null, replay = null; // one of them is there
const list = new LockList($("list"), (s) => history.times(s.topic, s.resource));
const detail = new Detail($("detail"));
const people = new People($("people"));
const timeline = new Timeline($("history"), (e) => {
  const lock = e.resource === "default" ? e.topic : `${e.topic} ${e.resource}`;
  explain(["Why ", h("b", {}, named(e.participant, e.via)), ` got ${lock}`], ...entry(e, locks, key(e.topic, e.resource)));
});
const tree = new TreeView({ onPick: pick });
const badge = statusBadge();
const fresh = new Freshness();
const utf8 = new TextDecoder();

let at = route(location.hash);
let dirty = new Set(); // keys of locks whose rows are to be drawn
const flipped = new Set(); // participants of whom it was said that they are gone, or back
let stale = { detail: true, tree: true, people: true, history: true };
let counted = 0;
let topicInTree = "";
const clockNow = () => replay?.player.now ?? Date.now();
let opened = clockNow();
let lastLetter = clockNow();
let letterCount = 0, tooMany = 0; // tooMany: when there were

setText($("domain"), config.domain === "default" ? "" : config.domain);
document.title = config.domain === "default" ? "Locks" : `Locks · ${config.domain}`;
$("status").append(badge.element, " ", badge.age);
$("tree").append(tree.element);
$("legend").append(tree.legend());
$("backlog-place").append(tree.backlog);

function drawNow() {
  const now = fresh.now(clockNow());
  if (flipped.size) {
    for (const [k, s] of locks.states) if ([s.root, s.holder, s.via, ...s.queue.flatMap((w) => [w.participant, w.via])].some((id) => flipped.has(id))) dirty.add(k);
    flipped.clear();
  }
  const listed = ["locks", "lock"].includes(at.view);
  if (dirty.size && listed) {
    list.draw(locks, dirty, now);
    dirty = new Set();
  }
  if (stale.detail) drawDetail(now);
  if (stale.tree) {
    drawMissing();
    if (shows.tree()) drawTree();
  }
  setText($("history-title"), at.view === "lock" ? "History of this lock" : "History");
  if (stale.history && shows.history()) timeline.draw(history, at.view === "lock" ? "" : $("search").value, at.view === "lock" ? at : null);
  if (stale.people && at.view === "people") people.draw(locks, $("search").value);
  if (now - counted > 250) drawCounts(now);
  stale = { people: stale.people && at.view !== "people", history: stale.history && !shows.history() };
}
const draw = onFrame(drawNow, PAUSE);

const shows = { tree: () => !["people", "history"].includes(at.view), history: () => !["people", "tree"].includes(at.view) };

function drawDetail(now) {
  if (at.view !== "lock") return;
  $("detail").hidden = false;
  detail.show(at.topic, at.resource, locks.states.get(key(at.topic, at.resource)), locks, now, history.times(at.topic, at.resource));
}

// topicShown is whose tree is drawn: that of the lock, the one chosen, or the largest.
function topicShown() {
  if (at.topic && locks.views.has(at.topic)) return at.topic;
  if (locks.views.has($("topic").value)) return $("topic").value;
  let best = "";
  for (const v of locks.views.values()) if (!best || v.members > locks.views.get(best).members) best = v.topic;
  return best;
}

function drawTree() {
  const names = [...locks.views.keys()].sort();
  if (JSON.stringify(names) !== $("topic").dataset.names) {
    $("topic").dataset.names = JSON.stringify(names);
    $("topic").replaceChildren(...names.map((n) => h("option", { value: n }, n)));
  }
  const topic = (topicInTree = topicShown());
  if ($("topic").value !== topic) $("topic").value = topic;
  const view = locks.views.get(topic);
  const members = treeOf(locks, topic);
  setText($("tree-facts"), view ? `root ${view.root} · ${count(members.filter((m) => m.candidate && m.alive).length, "candidate")} of ${count(view.members, "member")} · ${view.models} · epoch ${view.epoch}` : "No lock has a tree yet.");
  $("tree-facts").dataset.root = view?.root ?? "";
  tree.show(members, notesOf(topic));
}

// drawMissing names the voters that do not answer the roots.
function drawMissing() {
  const missing = locks.missing();
  $("missing").hidden = missing.length === 0;
  setText($("missing"), `Voters are missing: ${missing.join(", ")}. "pubsub-node voters show" says why.`);
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// notesOf says who holds and waits, of the lock that is looked at or of all of the topic.
function notesOf(topic) {
  const held = new Map(), notes = new Map();
  const add = (id, resource) => held.set(id, [...(held.get(id) ?? []), resource]);
  const one = at.view === "lock" && at.topic === topic && locks.states.get(key(topic, at.resource));
  if (one) {
    one.queue.forEach((w, i) => {
      const id = w.via || w.participant; // for the first of its clients
      if (!notes.has(id)) notes.set(id, { text: `waits, no. ${i + 1}${w.via ? ` for ${w.participant}` : ""}` });
    });
    if (one.holder) notes.set(one.via || one.holder, { text: one.via ? `holds it for ${one.holder}` : "holds it", held: true });
    return notes;
  }
  for (const s of locks.states.values()) if (s.topic === topic && s.holder) add(s.via || s.holder, s.resource);
  for (const [id, all] of held) notes.set(id, { text: all.length > 1 ? `holds ${all.length}` : all[0] === "default" ? "holds it" : `holds ${all[0]}`, held: true });
  return notes;
}

function drawCounts(now) {
  counted = now;
  let held = 0, free = 0, waiting = 0;
  for (const s of locks.states.values()) {
    if (s.status === "held") held++;
    if (s.status === "free") free++;
    if (s.waiting) waiting++;
  }
  let alive = 0;
  for (const p of locks.participants.values()) if (p.alive) alive++;
  setText($("n-all"), locks.states.size);
  setText($("n-held"), held);
  setText($("n-waiting"), waiting);
  setText($("n-free"), free);
  setText($("n-long"), list.long);
  const rate = history.rate(now, opened);
  setText($("rates"), `${count(alive, "participant")} · ${rate < 10 ? rate.toFixed(1) : Math.round(rate)} entries/s`);
  setText($("history-since"), `since ${clock(history.since(opened, now, at.view === "lock" ? at : null))}`);
  $("full").hidden = !locks.full;
  const nothing = list.shown.length === 0;
  $("empty").hidden = !nothing;
  $("list").hidden = nothing;
  if (nothing) setText($("empty"), locks.states.size ? "No lock matches." : "No locks yet. Take one: pubsub-node lock crane -- sleep 10");
  const more = $("search").value.trim() ? unnamed(locks.states.values()) : 0;
  $("unnamed").hidden = more === 0;
  if (more) setText($("unnamed"), `${more} more ${more === 1 ? "request waits" : "requests wait"} behind the first 16 of a lock: their names are not published, and not searched.`);
  const quiet = (locks.members.get(topicShown())?.size ?? 0) > 1 && now - lastLetter > SILENCE && tree.speed !== "off";
  $("tree-note").hidden = !quiet && !tooMany;
  if (tooMany) setText($("tree-note"), "There are more messages on the edges than anybody could follow: they are drawn again when there are fewer.");
  else if (quiet) setText($("tree-note"), "This broker shows letters to their addressees only, so the messages on the edges cannot be drawn. All else is complete.");
}

function onMessage(topic, payload, retained) {
  if (retained && sweeping) settle();
  const levels = parseTopic(root, topic);
  if (levels) take(levels, payload, clockNow());
}

// take reads a message that came at a time.
function take(levels, payload, now) {
  if (levels[0] === "node") {
    lastLetter = now;
    if (locks.hear(levels[2])) confirmed([levels[2]]);
    if (clockNow() - now > LATE) return;
    if (++letterCount > LETTERS) return tooManyLetters();
    const letter = levels.length === 3 && readLetter(payload);
    if (letter && letter.topic === topicInTree) tree.message(levels[2], levels[1], letter.kind);
    return;
  }
  const change = locks.apply(levels, utf8.decode(payload), now);
  if (!change) return;
  switch (change.kind) {
    case "state":
      dirty.add(change.key);
      if (change.topic === topicInTree) stale.tree = true;
      if (change.topic === at.topic && change.resource === at.resource) stale.detail = true;
      break;
    case "events":
      history.add(change.events, now);
      stale.history = true;
      confirmed(change.heard);
      if (change.topic === at.topic) stale.detail = true;
      break;
    case "presence":
      if (change.all) drawAll(); // in doubt, those who have not come back
      flipped.add(change.id);
      stale.detail = true; // falls through
    default:
      stale.tree = true;
  }
  stale.people = true;
  draw();
}

// confirmed has drawn what is said of participants that were heard.
function confirmed(ids) {
  if (ids.length === 0) return;
  for (const id of ids) flipped.add(id);
  stale.people = stale.detail = true;
  draw();
}

let sweeping = 0;
function settle() {
  clearTimeout(sweeping);
  sweeping = setTimeout(() => {
    sweeping = 0;
    fresh.settled = true;
    fresh.show(badge.age, clockNow());
    if (locks.sweep()) drawAll();
  }, SETTLED);
}

function onStatus(status) {
  const begun = fresh.status(status), connected = status.state === "connected";
  if (connected && begun) {
    locks.begin();
    lastLetter = clockNow();
    drawAll(); // in doubt,
    drawNow(); // before the page says that it is connected
  }
  badge.show(status);
  fresh.show(badge.age, clockNow());
  if (!connected) clearTimeout(sweeping);
  else if (!fresh.settled || begun) settle();
}

function drawAll() {
  dirty = new Set([...list.rows.keys(), ...locks.states.keys()]);
  stale = { detail: true, tree: true, people: true, history: true };
  draw();
}

function search(text) {
  $("search").value = text;
  refilter();
}

// pick shows what a participant does: here, or where a search shows.
function pick(id) {
  search(id);
  if (!$("search").checkVisibility()) location.hash = "#/people";
}

function refilter() {
  list.refilter({ search: $("search").value, which: document.querySelector("[name=which]:checked").value });
  stale.history = stale.people = true;
  drawCounts(fresh.now(clockNow()));
  draw();
}

function go() {
  at = route(location.hash);
  document.body.dataset.view = at.view;
  if (at.view !== "lock") $("detail").hidden = true; // at once, as the rest of the view: drawing can be a while off
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === (at.view === "lock" ? "locks" : at.view)) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  list.select(at.view === "lock" ? key(at.topic, at.resource) : null);
  stale = { detail: true, tree: true, people: true, history: true };
  listenToLetters();
  draw();
}

// tooManyLetters reads none for a while: on a hot lock they would take all of the page's time.
function tooManyLetters() {
  if (tooMany) return;
  tooMany = Date.now();
  listenToLetters();
  setTimeout(() => {
    tooMany = 0;
    listenToLetters();
  }, REST);
}

const letters = root + "/node/#";
function listenToLetters() {
  const seen = !tooMany && tree.speed !== "off" && $("tree").offsetParent !== null;
  if (seen) connection?.listen(letters);
  else connection?.ignore(letters);
  lastLetter = clockNow();
}

function refused(filter) {
  if (filter === letters) return; // said below the tree
  const what = filter.slice(root.length + 1);
  if (document.querySelector(`[data-refused="${CSS.escape(what)}"]`)) return;
  $("notices").append(h("p", { class: "notice", "data-refused": what }, `The broker does not let this page read ${what}.`));
}

const filters = Object.fromEntries(["presence/+", "lock/+/+/state", "lock/+/view", "lock/+/member/+", "lock/+/events"].map((f) => [root + "/" + f, 0]));

// show has a recording take the place of the connection.
function show(recording, moment) {
  connection?.close();
  replay?.close();
  connection = null;
  clearTimeout(sweeping);
  sweeping = 0;
  fresh.status({ state: "connected", session: 1 });
  fresh.settled = true;
  badge.show({ state: "replay", session: 1, text: `replay of ${new Date(recording.started).toLocaleString()}` });
  replay = null;
  forget(recording.started);
  replay = startReplay(recording, moment, { onMessage: take, onReset: () => forget(recording.started) });
  document.querySelector(".tools").before(replay.element);
  drawAll();
}

// forget begins anew at a time: what a recording says later has not happened.
function forget(time) {
  locks = new Locks();
  history = new History();
  timeline.forget();
  counted = 0;
  opened = lastLetter = time;
  drawAll();
}

addEventListener("dragover", (e) => e.preventDefault());
addEventListener("drop", (e) => {
  e.preventDefault();
  const file = e.dataTransfer?.files[0];
  if (file) open(readRecording(file.stream()), null, file.name);
});

async function open(reading, moment, name) {
  try {
    show(await reading, moment);
  } catch (error) {
    $("notices").append(h("p", { class: "notice" }, `${name} cannot be replayed: ${error.message}`));
  }
}

if (config.replay) await open(openRecording(), momentOf(location.search), "The recording");
else connection = connect(config, { filters, onMessage, onStatus, onRefused: refused, askPassword });

$("search").addEventListener("input", refilter);
$("which").addEventListener("change", refilter);
$("sort").addEventListener("change", () => {
  document.body.dataset.sort = $("sort").value;
  list.sortBy($("sort").value);
});
$("topic").addEventListener("change", () => (location.hash = "#/tree/" + encodeURIComponent($("topic").value)));
$("speed").addEventListener("change", () => {
  tree.setSpeed($("speed").value);
  listenToLetters();
});
addEventListener("hashchange", go);
addEventListener("resize", () => {
  stale.tree = true;
  listenToLetters();
  draw();
});
addEventListener("keydown", (e) => {
  if (document.querySelector("dialog[open]")) return;
  const typing = ["INPUT", "SELECT"].includes(document.activeElement?.tagName);
  if (e.key === "/" && !typing) $("search").focus();
  else if (e.key === "Escape" && typing && document.activeElement === $("search")) search("");
  else if (e.key === "Escape" && at.view === "lock") location.hash = "#/";
  else if (["ArrowDown", "Enter"].includes(e.key) && document.activeElement === $("search")) list.focusFirst();
  else if (e.key === "ArrowDown" && document.activeElement === document.body) list.focusFirst();
  else return;
  e.preventDefault();
});
setInterval(() => {
  fresh.show(badge.age, clockNow());
  letterCount = 0;
  const now = fresh.now(clockNow());
  if (["locks", "lock"].includes(at.view)) list.tick(now);
  detail.tick(now);
  drawCounts(now);
}, 1000);
setInterval(() => stale.people && at.view === "people" && draw(), 1000);
go();
globalThis.board = { get locks() { return locks; }, get history() { return history; }, get replay() { return replay; }, tree, link }; // for a look from the browser's console, and for tests
