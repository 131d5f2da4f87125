// One lock in full: who holds it, who waits.
import { h, setText, span, clock, morph } from "/base/dom.js";
import { named } from "/base/locks.js";

const TAGS = { granted: "wait", free: "free", unknown: "bad" };

export class Detail {
  constructor(element) {
    this.element = element;
  }

  /** show describes a lock; state is undefined if nothing is known of it. */
  show(topic, resource, state, locks, now) {
    this.state = state;
    this.locks = locks;
    const lock = resource === "default" ? topic : `${topic} ${resource}`;
    const head = h("div", { class: "head" }, h("h2", {}, lock), h("span", { class: "fill" }), h("a", { class: "back", href: "#/" }, "all locks"));
    if (!state) {
      this.element.removeAttribute("data-doubt");
      morph(this.element, head, h("p", { class: "muted" }, "Nobody has published anything about this lock."));
      return;
    }
    now = locks.until(state, now);
    const known = [], doubt = locks.doubt(state);
    this.element.toggleAttribute("data-doubt", doubt !== "");
    const fact = (name, ...value) => known.push(h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, ...value)));
    if (doubt === "old") fact("not confirmed", state.session === locks.session ? "the broker was restarted, and not everybody has come back" : `said at ${clock(state.heard)}, and not since the connection came back`);
    const gone = (id) => (locks.alive(id) === false ? h("span", { class: "tag bad" }, "gone") : locks.unconfirmed(id) ? h("span", { class: "tag bad" }, "gone?") : null);
    if (state.holder) fact("held by", h("b", { id: "holder" }, named(state.holder, state.via)), " ", gone(state.via || state.holder));
    else fact("state", h("span", { class: "tag " + TAGS[state.status] }, state.status), state.grantee ? ` to ${named(state.grantee, state.via)}: not known to be inside yet` : "",
      state.status === "unknown" ? " the root looks for the token, or for who holds it" : "");
    if (state.since !== null) fact("since", h("time", { datetime: new Date(state.since).toISOString() }, clock(state.since)), " · ", counted(state.since, now));
    if (state.holder) fact("priority", h("span", { class: "num" }, state.priority));
    fact("fence", h("code", { id: "fence" }, state.fence || "–"));
    fact("root", state.root, " ", gone(state.root));
    fact("epoch", h("code", {}, state.epoch));
    const rows = state.queue.map((w, i) => h("tr", {}, h("td", { class: "num" }, i + 1),
      h("td", {}, named(w.participant, w.via), " ", w.any ? h("span", { class: "tag" }, "any") : null, gone(w.via || w.participant)),
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

// counted is a time that goes on.
const counted = (since, now) => h("span", { class: "num", "data-since": since }, span(now - since));
