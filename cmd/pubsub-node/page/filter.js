// Which locks and events are shown: a model without a page.
import { timesOf } from "./times.js";

const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** matchState reports whether a state, perhaps held for longer than usual, has all the words of a search and is of a kind. */
export function matchState(state, { search = "", which = "all" } = {}, long = false) {
  if (["held", "free"].includes(which) && state.status !== which) return false;
  if (which === "waiting" && state.waiting === 0) return false;
  if (which === "long" && !long) return false;
  if (search === "") return true;
  const text = [state.topic + "/" + state.resource, state.holder, state.via, ...state.queue.flatMap((w) => [w.participant, w.via])].join("\n").toLowerCase();
  return words(search).every((w) => text.includes(w));
}

/** unnamed counts the requests of which a search knows nothing: a state names the first of a queue only. */
export function unnamed(states) {
  let n = 0;
  for (const s of states) n += Math.max(0, s.waiting - s.queue.length);
  return n;
}

/** matchText reports whether a text has all the words of a search. */
export function matchText(text, search) {
  text = text.toLowerCase();
  return words(search).every((w) => text.includes(w));
}

const collator = new Intl.Collator("en", { numeric: true });

/** compareStates orders locks for people: north 2 before north 10. */
export function compareStates(a, b) {
  return collator.compare(a.topic, b.topic) || collator.compare(a.resource, b.resource);
}

/** route reads the address of a view: {view, topic, resource}. */
export function route(hash) {
  const [view = "", ...rest] = hash.replace(/^#?\/?/, "").split("/");
  let names;
  try {
    names = rest.map(decodeURIComponent);
  } catch {
    names = [];
  }
  if (view === "lock" && names.length === 2) return { view: "lock", topic: names[0], resource: names[1] };
  if (view === "tree") return { view: "tree", topic: names[0] ?? "" };
  return { view: ["people", "history"].includes(view) ? view : "locks" };
}

/** link is the address of a lock. Events may name what is no well-formed text, which cannot be encoded. */
export function link(topic, resource) {
  return `#/lock/${encodeURIComponent(topic.toWellFormed())}/${encodeURIComponent(resource.toWellFormed())}`;
}

const KEEP = 10 * 60_000, RATED = 10_000;
const STEP = 100; // ms in which entries are counted together
const MOST = 10_000; // events that are kept, about
const LOCKS = 1000; // locks of which any are
const ring = (topic, resource) => topic + "\n" + resource;

/**
 * History keeps the events of the last minutes, some of each lock, so that one that is
 * busy takes nothing from the others; and it counts the entries of the last seconds.
 */
export class History {
  constructor() {
    this.rings = new Map(); // by topic and resource: {events, the newest last; forgot}, the last that had one last
    this.added = 0;
    this.expired = 0; // when what is too old was last dropped
    this.granted = []; // {at, n}, the newest last: also of events that are not kept
    this.forgot = 0; // when the newest of the events was heard of which the lock was dropped for want of room
  }

  add(events, now) {
    if (now - this.expired > 1000) this.#expire(now);
    for (const e of events) {
      const k = ring(e.topic, e.resource);
      const own = this.rings.get(k) ?? { events: [], forgot: 0 };
      this.rings.delete(k);
      this.rings.set(k, own);
      own.events.push({ ...e, heard: now, number: ++this.added });
      const most = Math.max(10, Math.min(500, Math.floor(MOST / this.rings.size)));
      if (own.events.length > 1.2 * most) own.forgot = own.events.splice(0, own.events.length - most).at(-1).heard;
      if (this.rings.size > LOCKS) this.#drop(this.rings.entries().next().value);
    }
    this.#count(events.filter((e) => e.event === "granted").length, now);
  }

  #drop([k, { events, forgot }]) {
    this.rings.delete(k);
    this.forgot = Math.max(this.forgot, forgot, events.at(-1)?.heard ?? 0);
  }

  #expire(now) {
    this.expired = now;
    for (const [k, { events }] of this.rings) {
      const first = events.findIndex((e) => now - e.heard <= KEEP);
      if (first < 0) this.rings.delete(k);
      else if (first > 0) events.splice(0, first);
    }
  }

  // of are the rings of a lock, those of its topic included, or all.
  #of(only) {
    if (!only) return [...this.rings.values()];
    return [only.resource, "", "*"].map((r) => this.rings.get(ring(only.topic, r))).filter(Boolean);
  }

  /** newest returns the events with a number above after, the newest first; only: null or {topic, resource}. */
  newest(only = null, after = 0) {
    const found = [];
    for (const { events } of this.#of(only)) {
      for (let i = events.length - 1; i >= 0 && events[i].number > after; i--) found.push(events[i]);
    }
    return found.sort((a, b) => b.number - a.number);
  }

  /** times are how long requests for a lock waited and holders held it, by the events that are kept: see timesOf. */
  times(topic, resource) {
    const own = this.rings.get(ring(topic, resource)) ?? { events: [] };
    const first = own.events[0]?.number, last = own.events.at(-1)?.number;
    if (!own.times || own.times.first !== first || own.times.last !== last) own.times = { ...timesOf(own.events), first, last };
    return own.times;
  }

  #count(n, now) {
    if (n === 0) return;
    const last = this.granted.at(-1);
    if (last && now - last.at < STEP) last.n += n;
    else this.granted.push({ at: now, n });
    while (now - this.granted[0].at > RATED) this.granted.shift();
  }

  /** rate is how many entries there were per second in the last ten seconds, of which some may be before begun. */
  rate(now, begun) {
    const since = Math.max(now - RATED, begun);
    const n = this.granted.reduce((sum, g) => sum + (g.at >= since ? g.n : 0), 0);
    return n / Math.max(1, (now - since) / 1000);
  }

  /** since is from when on all events are kept, of one lock or all. */
  since(begun, now, only = null) {
    return Math.max(begun, now - KEEP, this.forgot, ...this.#of(only).map((r) => r.forgot));
  }
}
