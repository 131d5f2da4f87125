// What happened to robots, the root and the broker while this page looked. Times are
// those of the demo's clock, ms.

const MOST = 200;

/** Incidents are those of a run: {kind: "killed" | "root", who, at} and {kind: "outage", from, to}. */
export class Incidents {
  constructor() {
    this.all = [];
    this.lastRoot = "";
    this.outage = null; // that lasts
  }

  #add(incident) {
    this.all.push(incident);
    if (this.all.length > MOST) this.all.shift();
    return incident;
  }

  /** robots compares what was told of the robots with what is told now. Who was dead before the page looked is no news. */
  robots(before, after, at) {
    const alive = new Set(before.filter((r) => !r.dead).map((r) => r.name));
    for (const r of after) if (r.dead && alive.has(r.name)) this.#add({ kind: "killed", who: r.name, at });
  }

  /** root is told who is the root. */
  root(name, at) {
    if (!name || name === this.lastRoot) return;
    if (this.lastRoot) this.#add({ kind: "root", who: name, at });
    this.lastRoot = name;
  }

  /** online is told whether the broker answers this page. */
  online(yes, at) {
    if (yes && this.outage) this.outage.to = at;
    if (yes) this.outage = null;
    else this.outage ??= this.#add({ kind: "outage", from: at });
  }
}

const clock = (ms) => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

/** words says what happened since the start of the run. */
export function words({ all }, start) {
  return all.map((e) => e.kind === "outage" ? `no connection from ${clock(e.from - start)}` + (e.to ? ` to ${clock(e.to - start)}` : "")
    : (e.kind === "killed" ? `${e.who} was killed at ` : `${e.who} became the root at `) + clock(e.at - start));
}
