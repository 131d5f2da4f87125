// Which locks and events are shown: a model without a page.

const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** matchState reports whether a state has all the words of a search and is of a kind. */
export function matchState(state, { search = "", which = "all" } = {}) {
  if (["held", "free"].includes(which) && state.status !== which) return false;
  if (which === "waiting" && state.waiting === 0) return false;
  if (search === "") return true;
  const text = [state.topic + "/" + state.resource, state.holder, state.via, ...state.queue.flatMap((w) => [w.participant, w.via])].join("\n").toLowerCase();
  return words(search).every((w) => text.includes(w));
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

const MOST = 2000, KEEP = 10 * 60_000, RATED = 10_000;
const STEP = 100; // ms in which entries are counted together

/** History keeps the events of the last minutes, the newest first, and counts the entries of the last seconds. */
export class History {
  constructor() {
    this.events = [];
    this.added = 0;
    this.granted = []; // {at, n}, the newest last: also of events that are not kept
    this.forgot = 0; // when the newest of the events was heard that were dropped for want of room
  }

  add(events, now) {
    for (const e of events) this.events.unshift({ ...e, heard: now, number: ++this.added });
    if (this.events.length > MOST) {
      this.forgot = this.events[MOST].heard;
      this.events.length = MOST;
    }
    while (this.events.length && now - this.events.at(-1).heard > KEEP) this.events.pop();
    this.#count(events.filter((e) => e.event === "granted").length, now);
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

  /** since is from when on all events are kept. */
  since(begun, now) {
    return Math.max(begun, now - KEEP, this.forgot);
  }
}
