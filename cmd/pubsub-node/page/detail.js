// One lock in full: who holds it, who waits.
import { h, setText, span, clock, morph } from "/base/dom.js";
import { entry, explain, latest, onWhy, wait } from "/base/explain.js";
import { key, named } from "/base/locks.js";
import { inWords } from "./times.js";

const TAGS = { granted: "wait", free: "free", unknown: "bad" };

export class Detail {
  constructor(element) {
    this.element = element;
    onWhy(element, (row) => this.#explain(row.dataset.why));
  }

  // explain says why somebody holds the lock, or is the waiter with this number.
  #explain(what) {
    const s = this.state, lock = nameOf(s.topic, s.resource), bold = (name, via) => h("b", {}, named(name, via));
    if (what === "holder") explain(["Why ", bold(s.holder, s.via), ` got ${lock}`], ...entry({ ...s, participant: s.holder, at: s.since }, this.locks, key(s.topic, s.resource)));
    else if (what === "grantee") explain([`Why ${lock} is granted to `, bold(s.grantee, s.via)], ...latest(s));
    else {
      const w = s.queue[what];
      explain(["Why ", bold(w.participant, w.via), ` waits for ${lock}`], ...wait(s, w, this.locks.doubt(s) !== ""));
    }
  }

  /** show describes a lock; state is undefined if nothing is known of it; times are those of History. */
  show(topic, resource, state, locks, now, times) {
    this.state = state;
    this.locks = locks;
    const head = h("div", { class: "head" }, h("h2", {}, nameOf(topic, resource)), h("span", { class: "fill" }), h("a", { class: "back", href: "#/" }, "all locks"));
    if (!state) {
      this.element.removeAttribute("data-doubt");
      morph(this.element, head, h("p", { class: "muted" }, "Nobody has published anything about this lock."));
      return;
    }
    now = locks.until(state, now);
    const known = [], doubt = locks.doubt(state);
    this.element.toggleAttribute("data-doubt", doubt !== "");
    const fact = (name, ...value) => known.push(h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, ...value)));
    const why = (name, via, id) => h("button", { type: "button", class: "why", title: "why?", id }, named(name, via));
    if (doubt === "old") fact("not confirmed", state.session === locks.session ? "the broker was restarted, and not everybody has come back" : `said at ${clock(state.heard)}, and not since the connection came back`);
    const gone = (id) => (locks.alive(id) === false ? h("span", { class: "tag bad" }, "gone") : locks.unconfirmed(id) ? h("span", { class: "tag bad" }, "gone?") : null);
    if (state.holder) fact("held by", why(state.holder, state.via, "holder"), " ", gone(state.via || state.holder));
    else fact("state", h("span", { class: "tag " + TAGS[state.status] }, state.status), ...(state.grantee ? [" to ", why(state.grantee, state.via), ": not known to be inside yet"] : []),
      state.status === "unknown" ? " the root looks for the token, or for who holds it" : "");
    if (state.holder || state.grantee) known.at(-1).dataset.why = state.holder ? "holder" : "grantee";
    if (state.since !== null) fact("since", h("time", { datetime: new Date(state.since).toISOString() }, clock(state.since)), " · ", counted(state.since, now));
    if (state.holder) fact("priority", h("span", { class: "num" }, state.priority));
    for (const [name, t] of [["waited", times.waiting], ["held", times.holding]]) {
      if (t.n) fact(`${name}, 50 % / 99 %`, h("span", { class: "num", title: `of the last ${t.n} in the history` }, inWords(t)));
    }
    fact("fence", h("code", { id: "fence" }, state.fence || "–"));
    fact("root", state.root, " ", gone(state.root));
    fact("epoch", h("code", {}, state.epoch));
    const rows = state.queue.map((w, i) => h("tr", { "data-why": i, "data-key": JSON.stringify([w.participant, w.via, w.clock]) }, h("td", { class: "num" }, i + 1),
      h("td", {}, why(w.participant, w.via), " ", w.any ? h("span", { class: "tag" }, "any") : null, gone(w.via || w.participant)),
      h("td", { class: "num" }, w.priority), h("td", { class: "num" }, w.exact ? null : "over ", counted(w.since, now))));
    const more = state.waiting - state.queue.length;
    if (more > 0) rows.push(h("tr", {}, h("td", { colspan: 4, class: "muted" }, `and ${more} more`)));
    morph(this.element, head, h("dl", {}, ...known), rows.length
      ? h("table", {}, h("thead", {}, h("tr", {}, ...["place", "waits", "priority", "for"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...rows))
      : h("p", { class: "muted" }, "Nobody waits."));
  }

  tick(now) {
    if (this.state) now = this.locks.until(this.state, now);
    for (const element of this.element.querySelectorAll("[data-since]")) setText(element, span(now - element.dataset.since));
  }
}

const nameOf = (topic, resource) => (resource === "default" ? topic : `${topic} ${resource}`);

// counted is a time that goes on.
const counted = (since, now) => h("span", { class: "num", "data-since": since }, span(now - since));
