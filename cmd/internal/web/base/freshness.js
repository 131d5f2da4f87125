// How far what a page shows can be relied on: the age of its data, in words and as a sign on
// the page. Without an answer from the broker nothing is known any more, so times stop there.
import { setText, span, clock } from "./dom.js";

export class Freshness {
  constructor() {
    this.state = "connecting";
    this.session = 0;
    this.heard = 0; // ms since 1970, of the last sign of life of the broker
    this.settled = true; // the broker has said again what it retains
  }

  /** status takes what connect() says, and returns whether a new connection has begun. */
  status({ state, session, heard }) {
    const begun = session !== this.session;
    this.state = state;
    this.session = session;
    if (heard) this.heard = heard;
    if (begun) this.settled = session <= 1;
    return begun;
  }

  /** live reports whether the broker answers. */
  get live() {
    return this.state === "connected";
  }

  /** now is the time up to which things are known. */
  now(now) {
    return this.live || !this.heard ? now : this.heard;
  }

  /** sign is "live", "settling" after a reconnection, or "stale". */
  get sign() {
    return !this.live ? "stale" : this.settled ? "live" : "settling";
  }

  /** text says how old the data is; "" while it is not. */
  text(now) {
    return this.live || !this.heard ? "" : `as of ${clock(this.heard)}, ${span(now - this.heard)} behind`;
  }

  /** show puts the sign on the page and the text into an element. */
  show(element, now) {
    if (document.body.dataset.fresh !== this.sign) document.body.dataset.fresh = this.sign;
    setText(element, this.text(now));
  }
}
