// The events of the last minutes, the newest on top.
import { h, span, clock } from "/base/dom.js";
import { named } from "/base/locks.js";
import { link, matchText } from "./filter.js";

const SHOWN = 200;
const TAGS = { granted: "held", released: "free", requested: "wait", lost: "bad", denied: "bad", rooted: "accent", regenerated: "accent" };

export class Timeline {
  constructor(element) {
    this.element = element;
    this.top = 0; // number of the newest event shown
    this.what = "";
  }

  /** forget has the next draw begin anew. */
  forget() {
    this.what = "";
  }

  /** draw shows the events that match; only: null or {topic, resource}. */
  draw(history, search, only) {
    const what = JSON.stringify([search, only]);
    if (what !== this.what) {
      this.what = what;
      this.top = 0;
      this.element.replaceChildren();
    }
    const fresh = [];
    for (const e of history.newest(only, this.top)) {
      if (fresh.length >= SHOWN) break;
      if (!matchText(`${e.topic}/${e.resource} ${named(e.participant, e.via)} ${e.event}`, search)) continue;
      fresh.push(row(e));
    }
    this.top = history.added;
    this.element.prepend(...fresh);
    while (this.element.children.length > SHOWN) this.element.lastChild.remove();
  }
}

function row(e) {
  const lock = e.resource && e.resource !== "default" && e.resource !== "*" ? `${e.topic} ${e.resource}` : e.topic;
  const more = [e.waited && `after ${span(e.waited * 1000)}`, e.held && `held ${span(e.held * 1000)}`, e.models, e.reason].filter(Boolean).join(", ");
  return h("li", { "data-at": e.at },
    h("time", { class: "num muted" }, clock(e.at)), h("span", { class: "tag " + (TAGS[e.event] ?? "") }, e.event),
    e.resource && e.resource !== "*" ? h("a", { href: link(e.topic, e.resource) }, lock) : h("span", {}, lock),
    h("span", { class: "who" }, named(e.participant, e.via)), h("span", { class: "muted" }, more));
}
