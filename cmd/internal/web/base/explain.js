// Why somebody has a lock, and why the others wait where they do, in the words of
// `pubsub-node lock why`: what a root decided by, and nothing that the page concludes.
import { h, clock, visible } from "./dom.js";
import { parseFence } from "./epoch.js";
import { named } from "./locks.js";

const HOW = new Map(Object.entries({
  root: "in its turn",
  turn: "in its turn",
  direct: "in its turn, straight from the holder before (Direct)",
  passing: "out of turn, while the token passed it on the way to another (Use)",
  retained: "again, with the token that it had kept (Retain)",
  resumed: "before the root was restarted",
}));

const BY = new Map(Object.entries({
  priority: "it is less important",
  clock: "its turn comes later",
  patience: "nobody may go before that one any more",
  arrival: "it came to the root later",
  level: "it is less important, or has waited for fewer",
  deadline: "its deadline is later",
}));

const comma = (...parts) => parts.filter(Boolean).join(", ");

/** reason is why a request waits where it does; "" if nothing is said. */
export function reason(w) {
  return [
    BY.get(w.by),
    w.any && "any resource will do",
    w.passed && "passed over: nothing was heard of it lately",
    w.exhausted ? "none that came later goes before it" : w.patience > 0 && `${w.patience} that came later may go before it`,
  ].filter(Boolean).join("; ");
}

/** entryText says how somebody came to hold a lock: {participant, via, fence, how, at}. */
export function entryText(e, call = named) {
  return comma(`${call(e.participant, e.via)} entered${e.at ? ` at ${clock(e.at)}` : ""}`, `fence ${e.fence}`, HOW.get(e.how)) + ".";
}

/** grantText says who was chosen and among how many. */
export function grantText(d, call = named) {
  const fences = d.fences > 1 ? `fences ${d.fence} to ${parseFence(d.fence) + BigInt(d.fences) - 1n}` : `fence ${d.fence}`;
  const text = comma("grant", fences, `${clock(d.at)}: to ${call(d.granted.participant, d.granted.via)}`, HOW.get(d.how));
  const keeps = d.retain ? " It may keep the token and enter again." : "";
  if (d.waiting <= 1 && d.queue.length === 0) return `${text}. Nobody else waited.${keeps}`;
  const models = `(models ${d.models})`;
  const among = d.place === 1 ? `. It came first of ${d.waiting} ${models}.` : d.place > 1 ? `. It was at place ${d.place} of ${d.waiting} ${models}.` : `, while ${d.waiting} waited ${models}.`;
  return text + among + keeps + (d.outdated ? " The token went on before a change of the order had come to the holder." : "");
}

const NONE = "Why is not known: its root has given no grant since it is the root, or is an older program.";

/** unknownText says why there is no decision about an entry; first is the oldest that the page has of the lock. */
export function unknownText(fence, first) {
  if (!first) return "Why is not known: no decision about this lock has come to this page.";
  const since = `since ${clock(first.at)}, fence ${first.fence}`;
  if (parseFence(fence) < parseFence(first.fence)) return `Why is no longer known: this page has decisions about this lock ${since}.`;
  return `Why is not known: only the latest grant is published, and that of this entry has not come to this page. It has decisions about this lock ${since}.`;
}

/** placeText says why one of a queue waits where it does. */
export function placeText(queue, i, waiting, call = named) {
  const w = queue[i], who = call(w.participant, w.via), before = queue[i - 1];
  const place = `${who} is at place ${i + 1} of ${waiting}`;
  if (!before) return place + ".";
  return `${place}, behind ${call(before.participant, before.via)}` + (BY.has(w.by) ? `: ${BY.get(w.by)}.` : ". The root does not say why.");
}

// waiters is a queue in the order of service; at is whom it is about, if one of them.
function waiters(queue, waiting, call, at) {
  if (queue.length === 0) return null;
  const rows = queue.map((w, i) => h("tr", { "aria-current": w === at ? "true" : null },
    ...[i + 1, call(w.participant, w.via), w.priority, w.clock || "–", reason(w)].map((text, n) => h("td", { class: n === 1 || n === 4 ? "" : "num" }, String(text)))));
  if (waiting > queue.length) rows.push(h("tr", {}, h("td", { colspan: 5, class: "muted" }, `and ${waiting - queue.length} more`)));
  return h("table", {}, h("thead", {}, h("tr", {}, ...["place", "participant", "priority", "clock", "behind the one before because"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...rows));
}

// sentence is a paragraph with what say(call) returns, in which each name is an element, so
// that one in a script that is written from the right does not move the words beside it.
function sentence(call, say) {
  const parts = say((name, via) => `\0${visible(call(name, via))}\0`).split("\0");
  return h("p", {}, ...parts.map((part, i) => (i % 2 ? h("b", {}, part) : part)));
}

const grant = (d, name, call) => sentence(call, (call) => `${name} ${grantText(d, call)}`);
const waited = (d, call) => waiters(d.queue, d.waiting, call, d.queue[d.place - 1]);

/** entry explains an entry, {participant, via, fence, how, at}, of a lock: elements for explain. */
export function entry(e, locks, key, call = named) {
  const d = locks.decisions.of(key, e.fence);
  return [sentence(call, (call) => entryText(e, call)), ...(d ? [grant(d, "The", call), waited(d, call)] : [h("p", {}, unknownText(e.fence, locks.decisions.first(key)))])];
}

const last = ({ decision }, call) => (decision ? grant(decision, "The latest", call) : h("p", {}, NONE));

/** latest explains the latest grant of a state. */
export const latest = (state, call = named) => [last(state, call), state.decision && waited(state.decision, call)];

/** wait explains why a waiter of a state waits, as it was told last; doubt: the state is not confirmed. */
export function wait(state, waiter, doubt, call = named) {
  return [
    sentence(call, (call) => placeText(state.queue, state.queue.indexOf(waiter), state.waiting, call)),
    h("p", { class: "muted" }, `In the order of service, as of ${clock(state.heard)}${doubt ? ", and not confirmed since" : ""}:`),
    waiters(state.queue, state.waiting, call, waiter),
    last(state, call),
  ];
}

/** explain shows elements in a dialog, until it is closed. title is a list of texts and elements. */
export function explain(title, ...nodes) {
  const dialog = h("dialog", { class: "explanation", "aria-labelledby": "explanation-title" },
    h("div", { class: "inside" },
      h("div", { class: "head" }, h("h2", { id: "explanation-title" }, ...title), h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
      ...nodes));
  dialog.addEventListener("click", (e) => e.target === dialog && dialog.close()); // outside
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * onWhy calls act with a row that has data-why when it is clicked, or the button in it is
 * pressed. Who selects text asks for nothing.
 */
export function onWhy(element, act) {
  element.addEventListener("click", (e) => {
    const row = e.target.closest("[data-why]");
    const other = e.target.closest("a, button:not(.why)");
    if (row && !other && (e.target.closest(".why") || getSelection().isCollapsed)) act(row);
  });
}
