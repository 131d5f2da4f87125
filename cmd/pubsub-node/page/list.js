// The list of locks: a row for each, made once and changed in place. The browser
// skips the layout of rows that are out of sight (content-visibility).
import { h, setText, setAttribute, span } from "/base/dom.js";
import { named } from "/base/locks.js";
import { matchState, compareStates, link } from "./filter.js";
import { inWords, ranked, unusual } from "./times.js";

const NAMED = 3; // waiters that a row names

export class LockList {
  /** times tells how long requests for the lock of a state waited, and holders held it. */
  constructor(element, times) {
    this.element = element;
    this.times = times;
    this.by = "name"; // what the rows are sorted by
    this.rows = new Map(); // by key
    this.order = []; // of rows
    this.filter = {};
    this.stop = null; // the row at which the Tab key stops; arrows lead to the others
    element.addEventListener("keydown", (e) => this.#keys(e));
    element.addEventListener("focusin", (e) => this.#stopAt(e.target.closest(".row")));
  }

  /** draw brings the rows of some locks up to date; all, if the filter has changed. */
  draw(locks, dirty, now) {
    const fresh = [];
    for (const k of dirty) {
      const state = locks.states.get(k), row = this.rows.get(k);
      if (!state) row?.remove(this, k);
      else if (row) row.show(state, locks, now);
      else {
        const made = new Row(state, this.times);
        made.show(state, locks, now);
        this.rows.set(k, made);
        fresh.push(made);
      }
      if (state) this.#hide(this.rows.get(k));
    }
    if (fresh.length) this.#insert(fresh);
    if (!this.stop?.isConnected) this.#stopAt(this.shown[0]?.anchor);
  }

  refilter(filter) {
    this.filter = filter;
    for (const row of this.rows.values()) this.#hide(row);
    if (!this.stop?.offsetParent) this.#stopAt(this.shown[0]?.anchor);
  }

  #stopAt(anchor) {
    if (!anchor || anchor === this.stop) return;
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = anchor;
    anchor.tabIndex = 0;
  }

  #hide(row) {
    const hidden = !matchState(row.state, this.filter, row.long);
    if (row.item.hidden !== hidden) row.item.hidden = hidden;
  }

  // Only what is new is compared and moved: there may be very many others.
  #insert(fresh) {
    this.order = this.order.filter((r) => r.item.isConnected);
    if (this.by !== "name") {
      for (const row of fresh) this.element.append(row.item);
      this.order.push(...fresh);
      return this.#sort();
    }
    for (const row of fresh.sort(inOrder)) {
      const at = this.#place(row);
      this.element.insertBefore(row.item, this.order[at]?.item ?? null);
      this.order.splice(at, 0, row);
    }
  }

  /** sortBy has the rows sorted by name, or by what changes: then they move once a second. */
  sortBy(by) {
    this.by = by;
    this.#sort();
  }

  // What is in its place stays there. A row that is moved would lose the focus.
  #sort() {
    const focused = document.activeElement;
    this.order = ranked(this.order.filter((r) => r.item.isConnected), this.by, inOrder);
    let next = this.element.firstElementChild;
    for (const { item } of this.order) {
      if (item === next) next = next.nextElementSibling;
      else this.element.insertBefore(item, next);
    }
    if (focused !== document.activeElement && this.element.contains(focused)) focused.focus({ preventScroll: true });
  }

  #place(row) {
    let low = 0, high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (inOrder(this.order[middle], row) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** tick shows how long things have been as they are. */
  tick(now) {
    for (const row of this.rows.values()) {
      row.tick(now);
      this.#hide(row);
    }
    if (this.by !== "name") this.#sort();
  }

  /** long counts the locks that are held for longer than usual. */
  get long() {
    let n = 0;
    for (const row of this.rows.values()) if (row.long) n++;
    return n;
  }

  select(key) {
    for (const [k, row] of this.rows) setAttribute(row.anchor, "aria-current", k === key ? "true" : null);
  }

  get shown() {
    return this.order.filter((r) => !r.item.hidden && r.item.isConnected);
  }

  focusFirst() {
    this.shown[0]?.anchor.focus();
  }

  #keys(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[e.key];
    if (!step) return;
    const shown = this.shown;
    const at = shown.findIndex((r) => r.anchor === document.activeElement);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + step))];
    next?.anchor.focus();
    e.preventDefault();
  }
}

// absence marks a waiter that may not wait any more: the root drops it after the TTL.
function absence(locks, waiter) {
  const id = waiter.via || waiter.participant;
  return locks.alive(id) === false ? " (gone)" : locks.unconfirmed(id) ? " (?)" : "";
}

const DIGITS = 6; // of a fence

/** short is a fence in little room: its last digits are the ones that change; the page of the lock has all. */
export const short = (fence) => (!fence || fence === "0" ? "–" : fence.length > DIGITS + 1 ? "…" + fence.slice(-DIGITS) : fence);

const inOrder = (a, b) => compareStates(a.state, b.state);

class Row {
  constructor(state, times) {
    this.timesOf = times;
    this.long = false; // held for longer than usual
    this.heldFor = 0; // ms
    const part = (name) => (this[name] = h("span", { class: name }));
    this.anchor = h("a", { class: "row", href: link(state.topic, state.resource), tabindex: -1 },
      part("mark"), h("span", { class: "name" }, h("b", {}, state.topic), state.resource === "default" ? null : h("span", { class: "resource" }, " " + state.resource)),
      part("holder"), part("fence"), part("since"), part("queue"), part("spent"));
    this.anchor.dataset.topic = state.topic;
    this.anchor.dataset.resource = state.resource;
    this.item = h("li", {}, this.anchor);
  }

  show(state, locks, now) {
    this.state = state;
    this.locks = locks;
    const doubt = locks.doubt(state);
    setAttribute(this.anchor, "data-doubt", doubt || null);
    setAttribute(this.anchor, "data-state", state.status);
    setAttribute(this.anchor, "data-fence", state.fence);
    setAttribute(this.anchor, "data-holder", state.holder);
    setText(this.mark, doubt ? state.status + "?" : state.status);
    setText(this.fence, short(state.fence));
    setAttribute(this.fence, "title", state.fence ? `fence ${state.fence}` : null);
    setText(this.holder, state.holder ? named(state.holder, state.via) + (doubt === "gone" ? ", gone" : "") : "–");
    const first = state.queue.slice(0, NAMED).map((w) => w.participant + absence(locks, w)).join(", ");
    const more = state.waiting - Math.min(NAMED, state.queue.length);
    setText(this.queue, state.waiting ? `${state.waiting} waiting: ${first}${more > 0 ? ` +${more}` : ""}` : "");
    this.tick(now);
  }

  tick(now) {
    const { since, status } = this.state, lasts = since === null ? 0 : this.locks.until(this.state, now) - since;
    this.heldFor = status === "held" ? lasts : 0;
    this.times = this.timesOf(this.state);
    this.long = unusual(this.times, this.heldFor);
    setText(this.since, since === null ? "" : (this.long ? "▲ " : "") + span(lasts));
    setAttribute(this.anchor, "data-long", this.long ? "" : null);
    setAttribute(this.since, "title", this.long ? `longer than usual: half of the holders, and 99 of 100, held it for ${inWords(this.times.holding)}` : null);
    setText(this.spent, `waited ${inWords(this.times.waiting)} · held ${inWords(this.times.holding)}`);
  }

  remove(list, k) {
    this.item.remove();
    list.rows.delete(k);
  }
}
