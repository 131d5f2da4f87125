// The events of the last minutes, the newest on top.
import { h, span, clock } from "/base/dom.js";
import { onWhy } from "/base/explain.js";
import { named } from "/base/locks.js";
import { link, matchText } from "./filter.js";

const SHOWN = 200;
const TAGS = { granted: "held", released: "free", requested: "wait", lost: "bad", denied: "bad", rooted: "accent", regenerated: "accent" };

export class Timeline {
  /** why is called with an entry that somebody asks about. */
  constructor(element, why) {
    this.element = element;
    this.entries = new WeakMap(); // by row
    this.stop = null; // the button at which the Tab key stops; arrows lead to the others
    onWhy(element, (row) => why(this.entries.get(row)));
    element.addEventListener("focusin", (e) => this.#stopAt(e.target.closest(".why")));
    element.addEventListener("keydown", (e) => this.#keys(e));
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
      if (e.event === "granted") this.entries.set(fresh.at(-1), e);
    }
    this.top = history.added;
    this.element.prepend(...fresh);
    for (let n = this.element.children.length; n > SHOWN; n--) this.#last().remove();
    if (!this.stop?.isConnected) this.#stopAt(this.element.querySelector(".why"));
  }

  // last is the oldest row; one with the focus stays.
  #last() {
    const last = this.element.lastChild;
    return last.contains(document.activeElement) ? last.previousSibling : last;
  }

  #stopAt(button) {
    if (!button || button === this.stop) return;
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = button;
    button.tabIndex = 0;
  }

  #keys(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[e.key];
    if (!step || !e.target.matches(".why")) return;
    const all = [...this.element.querySelectorAll(".why")];
    all[Math.max(0, Math.min(all.length - 1, all.indexOf(e.target) + step))].focus();
    e.preventDefault();
  }
}

function row(e) {
  const lock = e.resource && e.resource !== "default" && e.resource !== "*" ? `${e.topic} ${e.resource}` : e.topic;
  const more = [e.waited && `after ${span(e.waited * 1000)}`, e.held && `held ${span(e.held * 1000)}`, e.models, e.reason].filter(Boolean).join(", ");
  const entry = e.event === "granted", tag = "tag " + (TAGS[e.event] ?? "");
  return h("li", { "data-at": e.at, "data-why": entry || null },
    h("time", { class: "num muted" }, clock(e.at)),
    entry ? h("button", { type: "button", class: "why " + tag, title: "why?", tabindex: -1 }, e.event) : h("span", { class: tag }, e.event),
    e.resource && e.resource !== "*" ? h("a", { href: link(e.topic, e.resource) }, lock) : h("span", {}, lock),
    h("span", { class: "who" }, named(e.participant, e.via)), h("span", { class: "muted" }, more));
}
