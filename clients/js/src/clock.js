// How long a hold may be believed in, on clocks that each fail in a way of their own.
//
// performance.now() never goes back, but in most browsers, and in Node.js on Linux,
// it stands still while the machine sleeps. Date.now() goes on, but people and time
// servers set it. So an instant is a reading of both, and a limit is over as soon as
// one of them says so. A clock that is set forward costs a hold that was still good,
// which is harmless. What remains is a clock that is set back during the sleep itself,
// by as much as the sleep lasted: only a fence helps against that.

/** MARGIN, in ms, covers the coarseness of clocks: some browsers round to 16.7 ms. */
export const MARGIN = 20;

/** @typedef {{ mono: number, wall: number }} Instant  both in ms */

/** @returns {Instant} */
export const now = () => ({ mono: performance.now(), wall: Date.now() });

/** @param {Instant} at @param {number} ms @returns {Instant} */
export const later = (at, ms) => ({ mono: at.mono + ms, wall: at.wall + ms });

/** isBefore reports whether a limit is still to come, by both clocks. */
export const isBefore = (/** @type {Instant} */ at, /** @type {Instant} */ limit) => at.mono < limit.mono && at.wall < limit.wall;
