// What the messages of a run say: a model without a page. Package telemetry has
// what is below show/, docs/topics.md the locks.
import { Locks, key } from "/base/locks.js";
import { Incidents } from "./incidents.js";

const CLASSES = 4;
const MOST_SEEN = 9; // a robot that sees as many has priority 0
const OLD_PICTURE = 2500; // ms after which a picture is not what a frequency carries now
const MAX_STAYS = 2000;
const TOLD = 2000; // ms without news of the robots after which they may be anywhere
const SAME_CLOCK = 1000; // ms that a message may take without telling of another clock

/** classOf is the class of who sees n survivors: 0, 1, 2, and 3 for more. */
export const classOf = (n) => Math.min(Math.max(n, 0), CLASSES - 1);

/** classOfPriority is the class of a request. */
export const classOfPriority = (p) => classOf(MOST_SEEN - Math.min(Math.max(p, 0), MOST_SEEN));

/** numberOf is the number of a robot's name, "" for anybody else's. */
export const numberOf = (name) => /^robot-(\d+)$/.exec(name ?? "")?.[1] ?? "";

/** CLASS_NAMES says what a class sees. */
export const CLASS_NAMES = ["0", "1", "2", "3+"];

const objects = (v) => (Array.isArray(v) ? v.filter((e) => e && typeof e === "object") : []);

export class Rescue {
  constructor(lockTopic) {
    this.lockTopic = lockTopic;
    this.locks = new Locks();
    this.scene = null;
    this.survivors = [];
    this.robots = []; // as last told, with {was: where it was before}
    this.told = 0; // when, by this clock
    this.online = false; // the broker answers
    this.ahead = 0; // how far this clock is ahead of the demo's, ms
    this.figures = null;
    this.pictures = new Map(); // by frequency: {frame, heard}
    this.stays = new Map(); // by frequency and fence: {frequency, robot, priority, fence, from, to, lost, how}
    this.incidents = new Incidents();
    this.switches = []; // changes of models: {at, models}
  }

  /** begin starts a connection: what was known before is in doubt until it is said again. */
  begin() {
    this.locks.begin();
  }

  /** connected is told whether the broker answers. */
  connected(online, now) {
    this.online = online;
    if (this.scene && !this.scene.over) this.incidents.online(online, this.theirs(now)); // before and after, there is nothing to miss
  }

  /** live reports whether what is shown is how things are: somebody tells it now, and the run is not over. */
  live(now) {
    return this.online && !this.scene?.over && now - this.told < TOLD;
  }

  /** asOf is the time up to which things are known. */
  asOf(now) {
    return this.live(now) ? now : Math.min(now, this.told || now);
  }

  // certain returns the state of a frequency, or undefined if it is in doubt.
  #certain(frequency, now) {
    const state = this.locks.states.get(key(this.lockTopic, frequency));
    return state && this.live(now) && !this.locks.doubt(state) ? state : undefined;
  }

  /**
   * apply takes a message. It returns what changed: "scene", "survivors",
   * "robots", "figures", "stays", "locks" or null; "another" if it is of another run.
   */
  apply(levels, payload, now) {
    if (levels[0] === "lock") return this.#lock(levels, payload, now);
    if (levels[0] === "presence") return this.locks.apply(levels, payload, now) && "locks";
    if (levels[0] !== "show" || levels.length !== 2) return null;
    let v;
    try {
      v = JSON.parse(payload);
    } catch {
      return null;
    }
    return this.#shown(levels[1], v, now);
  }

  #shown(name, v, now) {
    switch (name) {
      case "scene":
        if (!Array.isArray(v?.frequencies) || !Array.isArray(v.ruins)) return null;
        if (this.scene && this.scene.start !== v.start) return "another";
        this.scene = v;
        return name;
      case "survivors":
        this.survivors = objects(v);
        return name;
      case "robots":
        this.#robots(v?.robots, now);
        if (Number.isFinite(v?.at)) this.ahead = Math.abs(now - v.at) < SAME_CLOCK ? 0 : now - v.at;
        return name;
      case "figures":
        if (!Array.isArray(v?.classes)) return null;
        this.figures = v;
        return name;
      case "stays":
        for (const s of objects(v)) this.#stay(s);
        return name;
    }
    return null;
  }

  #robots(all, now) {
    const was = new Map(this.robots.map((r) => [r.name, r]));
    this.incidents.robots(this.robots, objects(all), this.theirs(now));
    this.robots = objects(all).map((r) => ({ ...r, was: was.get(r.name) ?? r }));
    for (const r of this.robots) r.was = { x: r.was.x, y: r.was.y };
    this.lasts = Math.min(1000, Math.max(50, now - this.told));
    this.told = now;
  }

  /** theirs is the time by the demo's clock. */
  theirs(now) {
    return now - this.ahead;
  }

  /** place is where a robot is drawn: between where it was last and where it is. */
  place(r, now) {
    const f = Math.min(1, (now - this.told) / (this.lasts || 200));
    return { x: r.was.x + f * (r.x - r.was.x), y: r.was.y + f * (r.y - r.was.y) };
  }

  #lock(levels, payload, now) {
    if (levels[1] !== this.lockTopic) return null;
    const change = this.locks.apply(levels, payload, now);
    if (change?.kind === "view") this.incidents.root(change.view?.root, this.theirs(now));
    if (change?.kind === "events") for (const e of change.events) this.#event(e);
    return change && "locks";
  }

  #event(e) {
    if (e.event === "granted") this.#stay({ frequency: e.resource, robot: e.participant, priority: e.priority, fence: e.fence, from: e.at, how: e.how });
    if (e.event === "released" || e.event === "lost") {
      this.#stay({
        frequency: e.resource, robot: e.participant, priority: e.priority, fence: e.fence,
        from: e.at - e.held * 1000, to: e.at, lost: e.event === "lost",
      });
    }
    if (e.event === "models" && e.models !== this.switches.at(-1)?.models) this.switches.push({ at: e.at, models: e.models });
  }

  // stay takes in what was said of a stay, by the event or the summary: what was
  // known of its end stays known.
  #stay(s) {
    const k = key(s.frequency, s.fence);
    const was = this.stays.get(k);
    if (was) {
      was.to ??= s.to;
      was.lost ||= s.lost;
      was.how ||= s.how;
      return;
    }
    this.stays.set(k, { ...s });
    if (this.stays.size > MAX_STAYS) this.stays.delete(this.stays.keys().next().value);
  }

  /** picture takes in a frame. */
  picture(frame, now) {
    const last = this.pictures.get(frame.frequency);
    if (last && BigInt(last.frame.fence) > BigInt(frame.fence)) return; // the center refuses it, too
    this.pictures.set(frame.frequency, { frame, heard: now });
  }

  /** frequency is what there is to show of one: {name, status, holder, grantee, via, class, since,
   * fence, queue, picture, doubt: it was so, silent: nothing of the holder gets through, dead: the holder}. */
  frequency(name, now) {
    const state = this.locks.states.get(key(this.lockTopic, name));
    const seen = this.pictures.get(name);
    const robot = this.robots.find((r) => r.name === state?.holder && !state.via);
    const picture = seen && now - seen.heard < OLD_PICTURE && seen.frame.robot === state?.holder ? seen.frame : null;
    return {
      name, picture, doubt: !this.#certain(name, now), dead: this.live(now) && !!robot?.dead, silent: !!(robot?.shadow || robot?.cut), heard: state?.heard ?? now, status: state?.status ?? "free", holder: state?.holder ?? "", grantee: state?.grantee ?? "", via: state?.via ?? "", priority: state?.priority ?? 0, class: classOfPriority(state?.priority ?? MOST_SEEN),
      since: state?.since ?? null, fence: state?.fence ?? "", waiting: state?.waiting ?? 0, queue: state?.queue ?? [],
    };
  }

  /** view is the view of the lock: root, models. */
  get view() {
    return this.locks.views.get(this.lockTopic);
  }

  /** sends is the frequency that a robot has for certain, or "". */
  sends(robot, now) {
    for (const f of this.scene?.frequencies ?? []) {
      const state = this.#certain(f, now);
      if (state?.holder === robot && !state.via) return f;
    }
    return "";
  }

  /** waits says whether a robot is in a queue for certain. */
  waits(robot, now) {
    return (this.scene?.frequencies ?? []).some((f) =>
      this.#certain(f, now)?.queue.some((w) => w.participant === robot && !w.via));
  }

  /**
   * bars are the stays of a frequency as they are drawn until now: one whose end
   * was not told ends when the next one begins.
   */
  bars(frequency, now) {
    const all = [...this.stays.values()].filter((s) => s.frequency === frequency).sort((a, b) => a.from - b.from);
    return all.map((s, i) => {
      const next = all[i + 1]?.from ?? now;
      return { ...s, end: Math.max(s.from, Math.min(s.to ?? next, next)), open: s.to === undefined && i === all.length - 1, class: classOfPriority(s.priority) };
    });
  }

  /** phases are the times of one priority model each: {from, fair}, in order, from the start of the run. */
  phases() {
    if (!this.scene) return [];
    const told = objects(this.figures?.phases);
    const first = told.findLast((p) => p.from <= this.scene.start);
    const phases = [{ from: this.scene.start, fair: first?.fair === true }];
    const add = (at, fair) => at > phases.at(-1).from && fair !== phases.at(-1).fair && phases.push({ from: at, fair });
    // What was told has all of them but, for a second, the last.
    for (const p of told) add(p.from, p.fair === true);
    const last = told.at(-1)?.from ?? 0;
    for (const s of this.switches.toSorted((a, b) => a.at - b.at)) if (s.at > last) add(s.at, s.models.startsWith("fair"));
    return phases;
  }
}

/** rule says in words what the priority model does. */
export function rule(models) {
  if (models?.startsWith("level")) return "Who sees the most survivors sends first.";
  if (models?.startsWith("fair")) return "Everybody sends in turn.";
  return "";
}
