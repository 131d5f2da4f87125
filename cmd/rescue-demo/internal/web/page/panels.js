// What the page says in words and numbers.
import { h, setText, setAttribute } from "/base/dom.js";
import { named } from "/base/locks.js";
import { once, settled } from "./controls.js";
import { CLASS_NAMES, classOf, classOfPriority, numberOf } from "./model.js";

/** called is how a robot is called, and anybody else who holds or waits. */
export const called = (name, via) => (numberOf(name) && !via ? `robot ${numberOf(name)}` : named(name, via));

/** chip is the sign of a robot: its number in the color of its class. */
export const chip = () => h("span", { class: "robot" });

export function setChip(element, name, cls) {
  setText(element, numberOf(name) || "–");
  element.className = "robot c" + cls;
}

export const seconds = (ms) => (Math.max(0, ms) / 1000).toFixed(1) + " s";

/** reason is why a request has its place: what the robot saw, or its priority. */
export const reason = (name, priority) => (numberOf(name) ? `saw ${CLASS_NAMES[classOfPriority(priority)]}, ` : "") + `priority ${priority}`;

/** base64 of bytes. */
export function base64(bytes) {
  let s = "";
  for (const b of bytes) s += String.fromCharCode(b);
  return btoa(s);
}

/** Frequency is the card of one. */
export class Frequency {
  constructor(name) {
    this.name = name;
    this.picture = h("img", { alt: "", width: 64, height: 48 });
    this.none = h("span", { class: "none" });
    this.chip = chip();
    this.holder = h("span", { class: "holder" });
    this.asked = h("span", {});
    this.since = h("span", {});
    this.now = h("p", { class: "now" }, this.chip, this.holder);
    this.element = h("article", { class: "frequency", "data-frequency": name, "aria-label": `${name} MHz` },
      h("div", { class: "screen" }, this.picture, this.none),
      h("div", { class: "who" }, h("h3", { class: "num" }, `${name} MHz`), this.now, h("p", { class: "muted small num facts" }, this.asked, this.since)));
  }

  show(f, now, theirs) {
    this.element.dataset.holder = f.holder;
    this.element.dataset.fence = f.fence;
    setChip(this.chip, f.holder, f.holder ? f.class : 0);
    this.chip.hidden = !f.holder;
    setAttribute(this.element, "data-doubt", f.doubt ? "old" : null);
    const does = f.dead ? "is dead" : f.doubt ? "had it" : f.silent ? "is cut off" : f.picture ? "sends" : "has it";
    setText(this.holder, f.holder ? `${called(f.holder, f.via)} ${does}` : (f.doubt ? "was " : "") + (f.grantee ? `granted to ${called(f.grantee, f.via)}` : f.status));
    setText(this.asked, f.holder ? reason(f.holder, f.priority) : "");
    setText(this.since, f.since === null ? "" : `for ${seconds(theirs - f.since - (f.doubt ? Math.max(0, now - f.heard) : 0))}`);
    this.#show(f.picture, f.holder);
  }

  #show(frame, holder) {
    this.picture.hidden = !frame;
    this.none.hidden = !!frame;
    setText(this.none, holder ? "no picture yet" : "nothing on the air");
    if (!frame || this.shown === frame) return;
    this.shown = frame;
    this.picture.src = "data:image/png;base64," + base64(frame.picture);
    setAttribute(this.picture, "alt", `what robot ${numberOf(frame.robot)} sees: ${frame.survivors} survivors`);
  }

  /** target is where who gets the frequency is shown. */
  get target() {
    return this.chip.hidden ? this.now : this.chip;
  }
}

const percent = (f) => Math.round(100 * f) + " %";

/** Figures are the numbers so far. */
export class Figures {
  constructor(list, table) {
    this.values = {};
    for (const [name, label] of Object.entries({
      found: "survivors found", entries: "entries", overlaps: "overlaps: two at once", inversions: "inversions, Level and Fair", fair: "longest wait under Fair", overtaken: "overtaken by later ones", messages: "messages per entry", delay: "handoff, median",
    })) {
      this.values[name] = h("dd", { id: "figure-" + name }, "–");
      list.append(h("div", {}, h("dt", {}, label), this.values[name]));
    }
    this.classes = CLASS_NAMES.map((name, i) => {
      const level = bar(i), fair = bar(i), wait = h("td", {});
      table.append(h("tr", {}, h("th", { scope: "row" }, h("span", { class: "robot c" + i }, name)), level.element, fair.element, wait));
      return { level, fair, wait };
    });
  }

  show(f, survivors) {
    const set = (name, text) => setText(this.values[name], text);
    set("found", `${survivors.filter((s) => s.found).length} of ${survivors.length}`);
    if (!f) return;
    set("entries", f.entries);
    set("overlaps", f.overlaps);
    this.values.overlaps.className = f.overlaps ? "bad" : "good";
    set("inversions", `${f.inversionsLevel}, ${f.inversionsFair}`);
    set("fair", f.switched ? f.fairWait.toFixed(1) + " s" : "–");
    set("overtaken", f.overtakenBound ? `${f.overtaken}, at most ${f.overtakenBound}` : "–");
    this.values.overtaken.className = f.overtakenBound && f.overtaken > f.overtakenBound ? "bad" : "";
    set("messages", f.messagesPerEntry.toFixed(1));
    set("delay", (f.syncDelayP50 * 1000).toFixed(f.syncDelayP50 < 0.01 ? 2 : 0) + " ms");
    f.classes.forEach((c, i) => {
      const row = this.classes[i];
      if (!row) return;
      row.level.show(c.level, c.robotsLevel, true);
      row.fair.show(c.fair, c.robotsFair, !!f.switched);
      setText(row.wait, c.entries ? c.wait.toFixed(1) + " s" : "–");
    });
  }
}

function bar(cls) {
  const fill = h("span", { class: "fill c" + cls }), mark = h("span", { class: "mark" }), text = h("span", { class: "share" }, "–");
  const track = h("span", { class: "track" }, fill, mark);
  return {
    element: h("td", {}, h("span", { class: "bar-cell" }, track, text)),
    show(share, chance, on) {
      fill.style.width = (on ? 100 * share : 0) + "%";
      mark.style.left = 100 * chance + "%";
      mark.hidden = !on;
      setText(text, on ? percent(share) : "–");
      setAttribute(track, "title", on ? `${percent(share)} of the airtime, ${percent(chance)} of the robots` : null);
    },
  };
}

/** doing says what a robot does; known: whether that is certain. */
export function doing(r, sends, waits, known = true) {
  if (!known) return "not known";
  if (r.dead) return "dead";
  const parts = [];
  if (r.paused) parts.push("paused");
  if (r.cut) parts.push("radio cut");
  else if (r.shadow) parts.push("in shadow");
  if (sends) parts.push(`${r.cut || r.shadow ? "has" : "sends on"} ${sends}`); // nothing of it gets through
  else if (waits) parts.push("waits");
  return parts.join(", ") || "searches";
}

/** Robots is the list of robots, with the commands for each: command(do, robot). */
export class Robots {
  constructor(list, command) {
    this.list = list;
    this.command = command; // null: the page only looks
    this.rows = new Map();
  }

  show(run, now) {
    const known = run.live(now);
    for (const r of run.robots) {
      let row = this.rows.get(r.name);
      if (!row) this.rows.set(r.name, (row = this.#row(r.name)));
      setChip(row.sign, r.name, classOf(r.sees));
      setText(row.sees, `sees ${r.sees}${run.scene.over ? "" : ", "}`);
      setText(row.does, run.scene.over ? "" : doing(r, run.sends(r.name, now), run.waits(r.name, now), known));
      Object.assign(row.element.dataset, { x: r.x, y: r.y, priority: r.priority, dead: !!r.dead, paused: !!r.paused, cut: !!r.cut });
      if (!this.command) continue;
      toggle(row.pause, r.paused, ["Pause", "Resume"], known && !r.dead);
      toggle(row.cut, r.cut, ["Cut radio", "Mend radio"], known && !r.dead);
      toggle(row.kill, r.dead, ["Kill", "Start"], known);
    }
  }

  #row(name) {
    const sign = chip(), sees = h("span", { class: "num" }), does = h("span", { class: "does" });
    const button = (on, off) => {
      const b = h("button", { class: "small", "data-robot": name, "data-act": on });
      return once(b, () => this.command(b.dataset.on === "true" ? off : on, name));
    };
    const pause = button("pause", "resume"), cut = button("cut", "mend"), kill = button("kill", "start");
    const element = h("li", { "data-robot": name }, sign, h("span", { class: "what" }, sees, does), this.command ? h("span", { class: "acts" }, pause, cut, kill) : null);
    this.list.append(element);
    return { element, sign, sees, does, pause, cut, kill };
  }
}

function toggle(button, on, names, possible) {
  if (button.dataset.on !== String(!!on)) settled(button);
  button.dataset.on = !!on;
  setAttribute(button, "aria-disabled", possible ? null : "true"); // not disabled, which would lose the focus
  setText(button, names[on ? 1 : 0]);
  setAttribute(button, "aria-label", `${names[on ? 1 : 0]} ${button.dataset.robot}`);
}
