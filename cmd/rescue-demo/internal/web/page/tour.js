// A tour of the page: a card next to what it is about. It is offered once, and its button stays.
import { h, setAttribute, setText } from "/base/dom.js";
import { placeCard } from "./place.js";
import { STEPS, standstill } from "./steps.js";

const OFFERED = "padme-rescue-tour"; // in localStorage: it was offered; in sessionStorage: the step that it is at
const ROUND = 24; // pixels from the middle of a robot to the ring around it
const MARGIN = 5; // and from any other target

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const memo = (storage, value) => {
  try {
    if (value === undefined) return globalThis[storage].getItem(OFFERED);
    if (value === null) globalThis[storage].removeItem(OFFERED);
    else globalThis[storage].setItem(OFFERED, value);
  } catch {
    // a browser that keeps nothing offers the tour again
  }
  return null;
};

/**
 * Tour leads through the steps. button starts and ends it; before is the element that its card goes before, so that
 * Tab leads from the button there. may: the page may command. placeOf(robot) is where a robot is drawn, {x, y} in the
 * window.
 */
export class Tour {
  constructor({ run, button, before, may, placeOf }) {
    Object.assign(this, { run, button, before, may, placeOf, at: -1, memory: null, result: null, cut: new Set() });
    this.title = h("h2", { id: "tour-title" });
    this.text = h("p", { id: "tour-text" });
    this.says = h("p", { id: "tour-says", role: "status" });
    this.act = h("button", { type: "button", id: "tour-act", class: "first", onclick: () => this.#act() }, "Do it for me");
    this.next = h("button", { type: "button", id: "tour-next", onclick: () => this.#go(this.at + 1) });
    const end = h("button", { type: "button", id: "tour-end", onclick: () => this.end() }, "End the tour");
    this.card = h("section", { id: "tour", "aria-labelledby": "tour-title", tabindex: -1 },
      h("div", { "aria-live": "polite", "aria-atomic": "true" }, this.title, this.text), this.says, h("div", { class: "buttons" }, this.next, this.act, end));
    this.ring = h("div", { id: "tour-ring", "aria-hidden": "true", hidden: true });
    document.body.append(this.ring);
    this.#offer();
    const last = memo("sessionStorage");
    if (last !== null && STEPS[last]) this.#go(Number(last)); // the page was loaded again, maybe for another run
  }

  #offer() {
    const first = memo("localStorage") === null;
    setText(this.button, first ? "Take the tour" : "Tour");
    this.button.classList.toggle("first", first);
    memo("localStorage", "offered");
    this.button.setAttribute("aria-expanded", "false");
    this.button.setAttribute("aria-controls", "tour");
    this.button.addEventListener("click", () => (this.at < 0 ? this.begin() : this.end()));
    document.addEventListener("keydown", (e) => {
      if (e.key === "Escape" && this.at >= 0 && !document.querySelector("dialog[open]")) this.end();
    });
  }

  begin() {
    this.button.classList.remove("first");
    this.#go(0);
    this.card.focus({ preventScroll: true });
  }

  end() {
    const focused = this.card.contains(document.activeElement);
    this.#go(STEPS.length);
    if (focused) this.button.focus();
  }

  #go(step) {
    this.#leave();
    const on = step < STEPS.length;
    if (!on && this.card.contains(document.activeElement)) this.button.focus();
    Object.assign(this, { at: on ? step : -1, memory: null, result: null, shown: "" });
    memo("sessionStorage", on ? step : null);
    this.ring.hidden = true;
    this.button.setAttribute("aria-expanded", String(on));
    if (!on) return this.card.remove();
    if (!this.card.isConnected) this.before.before(this.card);
    setText(this.title, `${step + 1} of ${STEPS.length}: ${STEPS[step].title}`);
    setText(this.text, STEPS[step].text);
    this.show(Date.now());
  }

  // leave has the radios work again that the tour had cut.
  #leave() {
    for (const button of this.cut) if (button.dataset.on === "true") button.click();
    this.cut.clear();
  }

  #act() {
    const control = this.result?.act && document.querySelector(this.result.act);
    if (!control) return;
    if (control.dataset.act === "cut") this.cut.add(control);
    control.click();
  }

  /** show brings the step up to date. */
  show(now) {
    const { run } = this;
    if (this.at < 0 || !run.scene) return;
    const step = STEPS[this.at], stands = standstill(run, now);
    if (!this.result?.done && !stands) {
      this.memory ??= step.begin(run, now);
      this.result = step.look(run, now, this.memory, this.may && !run.scene.chaos);
    }
    const { says = "", done, target, act } = this.result ?? {};
    setText(this.says, done ? "✓ " + says : stands || says);
    const last = this.at + 1 === STEPS.length;
    setText(this.next, done && last ? "Finish" : done ? "Next" : last ? "Skip and finish" : "Skip");
    this.next.classList.toggle("first", !!done);
    this.#offerAct(!done && !stands && act);
    this.#point(target);
  }

  // offerAct shows the button that acts; hidden, it must not take the focus with it.
  #offerAct(act) {
    if (!act && document.activeElement === this.act) this.next.focus();
    this.act.hidden = !act;
    const control = act ? document.querySelector(act) : null;
    setAttribute(this.act, "aria-disabled", control?.getAttribute("aria-disabled") === "true" ? "true" : null);
  }

  // point puts the ring around the target, and the card next to it.
  #point(target) {
    const robot = target?.startsWith("robot-"), element = document.querySelector(robot ? "#map" : target || "#nothing");
    this.ring.hidden = !element;
    if (!element) return this.#place({ left: 0, top: 0, right: 0, bottom: 0 });
    const first = this.shown !== (this.shown = robot ? "#map" : target);
    if (first) reveal(element, this.card);
    const box = element.getBoundingClientRect(), p = robot && this.placeOf(target);
    const around = p ? { left: p.x - ROUND, top: p.y - ROUND, right: p.x + ROUND, bottom: p.y + ROUND }
      : { left: box.left - MARGIN, top: box.top - MARGIN, right: box.right + MARGIN, bottom: box.bottom + MARGIN };
    const { width } = document.documentElement.getBoundingClientRect();
    const left = Math.max(0, around.left), right = Math.min(width, around.right);
    Object.assign(this.ring.style, { left: left + scrollX + "px", top: around.top + scrollY + "px", width: right - left + "px", height: around.bottom - around.top + "px" });
    this.ring.classList.toggle("round", !!p);
    this.#place(box);
  }

  #place(box) {
    const { left, top } = placeCard(box, { width: this.card.offsetWidth, height: this.card.offsetHeight }, { width: document.documentElement.clientWidth, height: innerHeight }, this.result?.sides ?? STEPS[this.at].sides);
    Object.assign(this.card.style, { left: left + "px", top: top + "px" });
  }
}

// reveal scrolls to an element that cannot be seen whole next to the card.
function reveal(element, card) {
  const { top, bottom } = element.getBoundingClientRect();
  if (top < 0 || bottom + card.offsetHeight > innerHeight && innerWidth < 900 || bottom > innerHeight) {
    scrollTo({ top: Math.max(0, top + scrollY - 16), behavior: still() ? "instant" : "smooth" });
  }
}
