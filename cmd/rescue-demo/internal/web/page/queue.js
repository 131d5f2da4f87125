// The list of who waits for a frequency, and the way from there to the frequency.
import { h, setAttribute, setText } from "/base/dom.js";
import { explain, onWhy, wait } from "/base/explain.js";
import { key } from "/base/locks.js";
import { classOfPriority, numberOf } from "./model.js";
import { called, chip, reason, seconds, setChip } from "./panels.js";

const SHOWN = 7; // places
const SLIDE = 600; // ms

/** Queue is the list; why is called with a waiter of poolOf that somebody asks about. */
export class Queue {
  constructor(element, why) {
    this.title = h("h3", {});
    this.list = h("ol", { class: "queue num" });
    this.more = h("p", { class: "muted small" });
    this.rows = [];
    element.append(this.title, this.list, this.more);
    onWhy(this.list, (element) => why(this.rows.find((row) => row.element === element).waiter));
  }

  /** show shows what poolOf returned. */
  show(pool, now, known) {
    const queue = pool.queue.slice(0, pool.waiting > SHOWN ? SHOWN - 1 : SHOWN); // or the place is for how many more
    while (this.rows.length < queue.length) this.#add();
    while (this.rows.length > queue.length) this.#drop();
    this.rows.forEach((row, i) => this.#place(row, queue[i], queue[i].doubt ? known : now));
    setText(this.title, heading(pool));
    const more = pool.waiting - queue.length;
    setText(this.more, more > 0 ? `and ${pool.more ? "at least " : ""}${more} more` : "");
  }

  #add() {
    const sign = chip(), text = h("button", { type: "button", class: "why", title: "why?" }), waited = h("span", { class: "muted" });
    const element = h("li", { "data-why": "waits" }, sign, text, waited);
    this.rows.push({ sign, text, waited, element });
    this.list.append(element);
  }

  // drop removes the last place; the focus, if it is there, goes to the one before.
  #drop() {
    const { element } = this.rows.pop();
    const focused = element.contains(document.activeElement);
    if (focused && this.rows.length === 0) this.#focusList();
    else if (focused) this.rows.at(-1).text.focus();
    element.remove();
  }

  // focusList gives the list the focus, so that the next Tab goes on from there.
  #focusList() {
    this.list.tabIndex = -1;
    this.list.addEventListener("blur", () => this.list.removeAttribute("tabindex"), { once: true });
    this.list.focus();
  }

  #place(row, w, now) {
    row.waiter = w;
    row.who = who(w.participant, w.via);
    setAttribute(row.element, "data-doubt", w.doubt ? "old" : null);
    setChip(row.sign, w.participant, classOfPriority(w.priority));
    const name = numberOf(w.participant) && !w.via ? "" : called(w.participant, w.via) + ", ";
    setText(row.text, name + reason(w.participant, w.priority) + (w.only && `, only ${w.only}`));
    setText(row.waited, seconds(now - w.since));
  }

  /** chipOf is the sign of who waits, or undefined. */
  chipOf(participant, via) {
    return this.rows.find((row) => row.who === who(participant, via))?.sign;
  }
}

const who = (participant, via) => participant + "\n" + via;

/** explainWait explains why a waiter of poolOf waits where it does in the queue of each frequency. */
export function explainWait(run, w, now) {
  const parts = run.scene.frequencies.flatMap((f) => {
    const state = run.locks.states.get(key(run.lockTopic, f));
    const same = state?.queue.find((o) => o.participant === w.participant && o.via === w.via && o.any === w.any && o.clock === w.clock);
    return same ? [h("h3", {}, `${f} MHz`), ...wait(state, same, run.frequency(f, now).doubt, called)] : [];
  });
  explain(["Why ", h("b", {}, called(w.participant, w.via)), " waits"], ...(parts.length ? parts : [h("p", {}, "It is in no queue any more.")]));
}

/** heading says how many wait. */
export function heading({ waiting, more, doubt }) {
  if (!waiting) return doubt ? "" : "nobody waits";
  return `${more ? "at least " : ""}${waiting} ${doubt ? "waited" : waiting === 1 ? "waits" : "wait"} for a frequency`;
}

/** Arrivals notices who gets a frequency. */
export class Arrivals {
  constructor() {
    this.last = new Map(); // by frequency: who had it
  }

  /** next returns who got the frequency since the last call, {participant, via}, or null if none did or it is not known. */
  next(f) {
    const participant = f.holder || f.grantee, now = f.doubt ? null : who(participant, f.via);
    const was = this.last.get(f.name);
    this.last.set(f.name, now);
    return now !== null && was !== undefined && was !== null && now !== was && participant ? { participant, via: f.via } : null;
  }
}

/** leave remembers where a sign is; what it returns has the sign slide from there to where it is now. */
export function leave(sign) {
  const from = sign.getBoundingClientRect();
  const copy = sign.cloneNode(true);
  copy.classList.add("slides");
  copy.setAttribute("aria-hidden", "true");
  return (target) => slide(copy, from, target.getBoundingClientRect());
}

function slide(copy, from, to) {
  if (globalThis.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  copy.style.left = from.left + "px";
  copy.style.top = from.top + "px";
  document.body.append(copy);
  const way = `translate(${to.left - from.left}px, ${to.top - from.top}px)`;
  const end = () => copy.remove();
  copy.animate([{ transform: "none" }, { transform: way }], { duration: SLIDE, easing: "ease-in-out" }).finished.then(end, end);
}
