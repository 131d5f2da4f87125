// The list of who waits for a frequency, and the way from there to the frequency.
import { h, setAttribute, setText } from "/base/dom.js";
import { classOfPriority, numberOf } from "./model.js";
import { called, chip, reason, seconds, setChip } from "./panels.js";

const SHOWN = 7; // places
const SLIDE = 600; // ms

/** Queue is the list. */
export class Queue {
  constructor(element) {
    this.title = h("h3", {});
    this.list = h("ol", { class: "queue num" });
    this.more = h("p", { class: "muted small" });
    this.rows = [];
    element.append(this.title, this.list, this.more);
  }

  /** show shows what poolOf returned. */
  show(pool, now, known) {
    const queue = pool.queue.slice(0, pool.waiting > SHOWN ? SHOWN - 1 : SHOWN); // or the place is for how many more
    while (this.rows.length < queue.length) this.#add();
    this.rows.forEach((row, i) => this.#place(row, queue[i], queue[i]?.doubt ? known : now));
    setText(this.title, heading(pool));
    const more = pool.waiting - queue.length;
    setText(this.more, more > 0 ? `and ${pool.more ? "at least " : ""}${more} more` : "");
  }

  #add() {
    const sign = chip(), text = h("span", {}), waited = h("span", { class: "muted" });
    const element = h("li", {}, sign, text, waited);
    this.rows.push({ sign, text, waited, element });
    this.list.append(element);
  }

  #place(row, w, now) {
    row.element.hidden = !w;
    row.who = w && who(w.participant, w.via);
    if (!w) return;
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
