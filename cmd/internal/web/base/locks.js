// What the retained messages of a domain say about its locks: a model without a
// page, so that it can be tested without one. docs/topics.md has the messages.
//
// Times are milliseconds since 1970, of the browser's clock where the name is "now"
// or "heard" and of whoever wrote the message otherwise.
import { Decisions } from "./decisions.js";
import { parseEpoch, parseFence, compareEpochs } from "./epoch.js";

// A root of the past is believed again when its successor has been silent for so
// long (qosmutex.WatchStates does the same): anybody can invent an epoch.
export const TERM_ENDS = 30_000;

// MAX_ASKED bounds the requests of one participant that are remembered: the events
// that end them may be lost.
const MAX_ASKED = 64;

// MAX_ASKING bounds the requests that are remembered of all: events name whom they like.
const MAX_ASKING = 10_000;

// MOST bounds the locks, topics, participants and members of a topic that are known:
// where a broker has no users, anybody may invent them.
export const MOST = 20_000;

// MAX_QUEUE is how much of a queue a root publishes.
const MAX_QUEUE = 16;

// SAME_TIME (ms) is how long the event of a request may come after a state that names it.
const SAME_TIME = 1000;

// STATUSES are what a state may say of the token: docs/topics.md.
const STATUSES = ["held", "granted", "free", "unknown"];

const ANY = "*"; // the resource of a request for any free one

/** named is how a holder or waiter is shown: a client with the participant that it asks through. */
export const named = (name, via) => (name && via ? `${name} (via ${via})` : name);

/** key names a resource of a topic in maps; no name contains a newline. */
export const key = (topic, resource) => topic + "\n" + resource;

export class Locks {
  constructor() {
    this.states = new Map(); // by key: see readState; its waiters have since, and exact if that is not just when they were first seen
    this.views = new Map(); // by topic: see readView
    this.members = new Map(); // by topic: Map of participant: see readMember
    this.participants = new Map(); // by id: see readPresence
    this.decisions = new Decisions();
    this.full = false; // there is more than MOST of something
    this.refused = 0; // messages that were malformed, or of a root of the past
    this.session = 0;
    this.restarted = 0; // the session since which the broker is known to have lost its other clients, too
    this.terms = new Map();
    this.asked = new Map(); // by topic: Map of participant: its requests that wait, {request, resource, priority, since}
    this.asking = 0; // requests in asked
  }

  /** begin starts a connection: what is not said again by sweep is gone. */
  begin() {
    this.session++;
    this.full = false;
    this.asked.clear(); // what ended them may not have been heard
    this.asking = 0;
  }

  #room(map, k) {
    if (map.has(k) || map.size < MOST) return true;
    this.full = true;
    return false;
  }

  /** sweep forgets what was known before this connection and has not been said since. It returns how much. */
  sweep() {
    let gone = 0;
    for (const map of [this.states, this.views, this.participants, ...this.members.values()]) {
      for (const [k, v] of map) {
        if (v.session !== this.session && map.delete(k)) gone++;
      }
    }
    return gone;
  }

  /**
   * apply takes a message with the levels below the domain's root. It returns what
   * changed: {kind: "state"|"view"|"member"|"presence"|"events", …}, or null.
   */
  apply(levels, payload, now) {
    const [family, topic, a, b] = levels;
    if (family === "presence" && levels.length === 2) return this.#presence(topic, payload, now);
    if (family !== "lock") return null;
    if (levels.length === 4 && a === "member") return this.#member(topic, b, payload, now);
    if (levels.length === 4 && b === "state") return this.#state(topic, a, payload, now);
    if (levels.length === 3 && a === "view") return this.#view(topic, payload, now);
    if (levels.length === 3 && a === "events") return this.#events(topic, payload, now);
    return null;
  }

  #state(topic, resource, payload, now) {
    const k = key(topic, resource);
    if (payload === "") return this.states.delete(k) ? { kind: "state", key: k, topic, resource, state: null } : null;
    const state = readState(topic, resource, payload);
    if (!state || !this.#room(this.states, k) || !this.#credible(topic, state.epoch, now)) {
      this.refused++;
      return null;
    }
    const was = this.states.get(k);
    this.#date(state, was, now);
    state.session = this.session;
    state.heard = now;
    this.states.set(k, state);
    this.decisions.note(k, state.decision);
    return { kind: "state", key: k, topic, resource, state, was };
  }

  // date says since when each waiter waits. States do not tell: events do, to who has
  // been there long enough to hear them.
  #date(state, was, now) {
    const asked = this.asked.get(state.topic);
    if (was?.session !== this.session) was = undefined; // the same names may wait again
    const used = new Set();
    const last = (waiting, w, same) => {
      const found = waiting?.findLast((o) => !used.has(o) && o.participant === w.participant && same(o, w) && (o.resource ?? state.resource) === state.resource);
      if (found) used.add(found);
      return found;
    };
    // By the priority first, which tells the requests of one participant apart; but that may
    // change. From the end: of what it asked for, the oldest may have ended unheard.
    for (const same of [(o, w) => o.priority === w.priority, () => true]) {
      for (const w of state.queue.toReversed()) {
        if (w.since !== undefined) continue;
        const said = last(asked?.get(w.participant), w, same);
        const before = said ?? last(was?.queue, w, same);
        if (before) Object.assign(w, { since: before.since, exact: said !== undefined || before.exact === true });
      }
    }
    for (const w of state.queue) {
      if (w.since === undefined) Object.assign(w, this.#elsewhere(state, w) ?? { since: now, exact: false });
    }
  }

  // elsewhere finds a request for any resource in the queue of another one.
  #elsewhere(state, w) {
    if (!w.any) return null;
    for (const s of this.states.values()) {
      if (s.topic !== state.topic || s.resource === state.resource || s.session !== this.session) continue;
      const o = s.queue.find((o) => o.any && o.participant === w.participant);
      if (o) return { since: o.since, exact: o.exact };
    }
    return null;
  }

  #credible(topic, epoch, now) {
    const was = this.terms.get(topic);
    const e = parseEpoch(epoch);
    if (!e) return false;
    if (was && compareEpochs(e, was.epoch) < 0 && now - was.heard < TERM_ENDS) return false;
    if (!was && this.terms.size >= 2 * MOST) this.terms.delete(this.terms.keys().next().value);
    this.terms.set(topic, { epoch: e, heard: now });
    return true;
  }

  /** missing names the voters that do not answer the roots. */
  missing() {
    return [...new Set([...this.views.values()].flatMap((v) => v.missing))].sort();
  }

  #view(topic, payload, now) {
    if (payload === "") return this.views.delete(topic) ? { kind: "view", topic, view: null } : null;
    const view = readView(topic, payload);
    if (!view || !this.#room(this.views, topic) || !this.#credible(topic, view.epoch, now)) {
      this.refused++;
      return null;
    }
    view.session = this.session;
    this.views.set(topic, view);
    return { kind: "view", topic, view };
  }

  #member(topic, participant, payload) {
    let all = this.members.get(topic);
    if (payload === "") return all?.delete(participant) ? { kind: "member", topic, participant, member: null } : null;
    const member = readMember(topic, participant, payload);
    if (!member || !this.#room(all ?? this.members, all ? participant : topic)) {
      this.refused++;
      return null;
    }
    member.session = this.session;
    if (!all) this.members.set(topic, (all = new Map()));
    all.set(participant, member);
    return { kind: "member", topic, participant, member };
  }

  #presence(id, payload) {
    if (payload === "") return this.participants.delete(id) ? { kind: "presence", id, presence: null } : null;
    const presence = readPresence(id, payload);
    if (!presence || !this.#room(this.participants, id)) {
      this.refused++;
      return null;
    }
    presence.session = this.session;
    const was = this.participants.get(id);
    // If a participant alone was cut off, its will comes first: it is not alive then.
    const again = was?.alive && presence.alive && was.incarnation === presence.incarnation;
    const same = again && was.epoch === presence.epoch;
    presence.kept = same && was.session !== this.session;
    presence.doubted = presence.kept && was.kept && (was.doubted || this.restarted === was.session);
    this.participants.set(id, presence);
    const all = again && !same && (was.session !== this.session || was.kept) && this.restarted !== this.session;
    if (all) this.restarted = this.session;
    return { kind: "presence", id, presence, all };
  }

  /**
   * unconfirmed says that only what a broker kept over a restart has a participant alive. It
   * publishes no wills of those that died meanwhile, and who lives connects again, in a new
   * epoch. Where only the page was cut off, nobody does.
   */
  unconfirmed(id) {
    const p = this.participants.get(id);
    return p?.kept === true && (p.doubted || this.restarted === this.session);
  }

  /** hear notes that a participant has sent something, and returns whether that says more of it than was known. */
  hear(id) {
    const p = this.participants.get(id);
    if (!p?.kept) return false;
    p.kept = false;
    return true;
  }

  #events(topic, payload, now) {
    const { events, bad } = readEvents(topic, payload);
    this.refused += bad;
    for (const e of events) this.#note(e, now);
    const heard = events.map((e) => e.via || e.participant).filter((id) => this.hear(id));
    return events.length ? { kind: "events", topic, events, heard } : null;
  }

  // note keeps who waits since when, by the browser's clock, which is the one that
  // waiting times are shown by.
  #note(e, now) {
    const topic = this.asked.get(e.topic) ?? new Map();
    let mine = topic.get(e.participant) ?? [];
    const before = mine.length;
    const known = mine.find((r) => r.request === e.request);
    if (e.event === "requested" && !known) {
      mine = [...mine.slice(-MAX_ASKED + 1), { ...e, resource: e.resource === ANY ? undefined : e.resource, since: now }];
      // The root may have been quicker to tell that it waits.
      const waiter = this.states.get(key(e.topic, e.resource))?.queue
        .find((w) => !w.exact && w.participant === e.participant && w.priority === e.priority && now - w.since < SAME_TIME);
      if (waiter) waiter.exact = true;
    } else if (e.event === "reprioritised" && known) {
      known.priority = e.priority;
    } else if (known) {
      mine = mine.filter((r) => r !== known); // granted, withdrawn, denied, lost, released
    }
    if (mine.length) topic.set(e.participant, mine);
    else topic.delete(e.participant);
    this.asking += mine.length - before;
    if (topic.size) this.asked.set(e.topic, topic);
    else this.asked.delete(e.topic);
    if (this.asking > MAX_ASKING) this.#forgetAsker();
  }

  // forgetAsker forgets who asked first, in the topic that has been asked for longest.
  #forgetAsker() {
    const [name, topic] = this.asked.entries().next().value;
    const [participant, requests] = topic.entries().next().value;
    topic.delete(participant);
    this.asking -= requests.length;
    if (topic.size === 0) this.asked.delete(name);
  }

  /**
   * doubt says why a state cannot be relied on, "" if it can: it was not said since the
   * last connection, or who said it or holds the lock is gone, or is not known to live.
   */
  doubt(state) {
    if (state.session !== this.session) return "old";
    if (this.alive(state.root) === false) return "root gone";
    if (state.holder && this.alive(state.via || state.holder) === false) return "gone";
    if (this.unconfirmed(state.root) || (state.holder && this.unconfirmed(state.via || state.holder))) return "old";
    return "";
  }

  /** until is the time up to which a state is known to have lasted, if the broker was last heard at now. */
  until(state, now) {
    return this.doubt(state) ? Math.min(now, state.heard) : now;
  }

  /** alive says whether a participant is there: true, false, or undefined if nobody said so. */
  alive(id) {
    return this.participants.get(id)?.alive;
  }
}

const time = (text) => {
  const t = Date.parse(text ?? "");
  return Number.isNaN(t) ? null : t;
};
const text = (v) => (typeof v === "string" ? v : "");
const number = (v) => (Number.isFinite(v) ? v : 0);
const list = (v) => (Array.isArray(v) ? v : []);

function parse(payload) {
  try {
    const v = JSON.parse(payload);
    return v && typeof v === "object" && !Array.isArray(v) ? v : null;
  } catch {
    return null;
  }
}

/** readState reads R/lock/{topic}/{resource}/state; null if it does not belong there. */
export function readState(topic, resource, payload) {
  const v = parse(payload);
  if (!v || v.topic !== topic || v.resource !== resource || !parseEpoch(v.epoch)) return null;
  // A root of before there was a status says only who holds.
  const status = STATUSES.includes(v.status) ? v.status : text(v.holder) ? "held" : "free";
  return {
    topic, resource, status, holder: status === "held" ? text(v.holder) : "", grantee: status === "granted" ? text(v.grantee) : "", via: text(v.via), priority: number(v.priority), fence: text(v.fence), since: time(v.since),
    how: text(v.how), waiting: number(v.waiting), epoch: v.epoch, root: text(v.root), queue: readQueue(v.queue), decision: readDecision(v.decision),
  };
}

// readQueue reads waiters in the order of service. by is what puts one behind the one before it.
function readQueue(v) {
  return list(v).slice(0, MAX_QUEUE).filter((w) => typeof w?.participant === "string").map((w) => ({
    participant: w.participant, via: text(w.via), priority: number(w.priority), any: w.any === true, clock: number(w.clock), by: text(w.by),
    patience: number(w.patience), exhausted: w.exhausted === true, passed: w.passed === true,
  }));
}

// readDecision reads why a root gave a token as it did; null if it does not say so.
function readDecision(v) {
  const [granted] = readQueue([v?.granted]);
  const at = time(v?.at), fences = number(v?.fences);
  if (!granted || at === null || parseFence(v.fence) === 0n || !(Number.isInteger(fences) && fences > 0)) return null;
  return {
    at, granted, models: text(v.models), how: text(v.how), fence: v.fence, fences, place: number(v.place), waiting: number(v.waiting), queue: readQueue(v.queue),
    retain: v.retain === true, outdated: v.outdated === true,
  };
}

/** readView reads R/lock/{topic}/view. */
export function readView(topic, payload) {
  const v = parse(payload);
  if (!v || v.topic !== topic || !parseEpoch(v.epoch)) return null;
  const names = (l) => list(l).filter((s) => typeof s === "string");
  return {
    topic, epoch: v.epoch, root: text(v.root), ttl: number(v.ttl), models: text(v.models),
    resources: names(v.resources), open: v.open === true, members: number(v.members),
    missing: names(v.missing),
  };
}

/** readMember reads R/lock/{topic}/member/{P}. */
export function readMember(topic, participant, payload) {
  const v = parse(payload);
  if (!v || v.topic !== topic || v.participant !== participant) return null;
  return {
    topic, participant, incarnation: text(v.incarnation), role: text(v.role), parent: text(v.parent), root: text(v.root),
    priority: number(v.priority), candidate: v.candidate === true, epoch: text(v.epoch),
  };
}

/** readPresence reads R/presence/{P}. */
export function readPresence(id, payload) {
  const v = parse(payload);
  if (!v || typeof v.alive !== "boolean") return null;
  const data = v.userData && typeof v.userData === "object" ? v.userData : {};
  return { id, alive: v.alive, since: time(v.since), data, incarnation: text(v.incarnation), epoch: text(v.epoch) };
}

/** readEvents reads the JSON lines of R/lock/{topic}/events and counts those that are none. */
export function readEvents(topic, payload) {
  const events = [];
  let bad = 0;
  for (const line of payload.split("\n")) {
    if (line.trim() === "") continue;
    const v = parse(line);
    if (!v || v.topic !== topic || typeof v.event !== "string") {
      bad++;
      continue;
    }
    events.push({
      event: v.event, topic, resource: text(v.resource), participant: text(v.participant), via: text(v.via), request: text(v.request),
      priority: number(v.priority), fence: text(v.fence), at: time(v.at) ?? 0, waited: number(v.waited), held: number(v.held),
      models: text(v.models), reason: text(v.reason), how: text(v.how),
    });
  }
  return { events, bad };
}
