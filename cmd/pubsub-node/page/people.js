// The participants: who is there, what they hold and wait for.
import { h, setAttribute, clock, morph } from "/base/dom.js";
import { matchText, link } from "./filter.js";

const NAMED = 6; // locks that are named of one participant

/** duties returns what each participant holds and waits for, itself or for clients, and roots: Map of id: {holds, waits, roots}. */
export function duties(locks) {
  const all = new Map();
  const of = (id) => {
    if (!all.has(id)) all.set(id, { holds: [], waits: [], roots: [] });
    return all.get(id);
  };
  for (const state of locks.states.values()) {
    if (state.holder) of(state.via || state.holder).holds.push(state);
    for (const id of new Set(state.queue.map((w) => w.via || w.participant))) of(id).waits.push(state);
  }
  for (const view of locks.views.values()) of(view.root).roots.push(view.topic);
  return all;
}

export class People {
  constructor(element) {
    this.element = element;
    this.rows = new Map();
  }

  draw(locks, search) {
    const duty = duties(locks);
    const ids = [...locks.participants.keys()].sort();
    for (const [id, row] of this.rows) {
      if (!locks.participants.has(id) && this.rows.delete(id)) row.remove();
    }
    ids.forEach((id, i) => {
      const p = locks.participants.get(id), d = duty.get(id) ?? { holds: [], waits: [], roots: [] };
      let row = this.rows.get(id);
      const doubt = p.session !== locks.session || locks.unconfirmed(id);
      const text = JSON.stringify([doubt, p.alive, p.since, d.roots, d.holds.map(held), d.waits.map(name)]);
      if (!row) this.rows.set(id, (row = h("li", { "data-id": id })));
      if (row.dataset.text !== text) {
        row.dataset.text = text;
        setAttribute(row, "data-alive", String(p.alive));
        setAttribute(row, "data-doubt", doubt ? "old" : null);
        morph(row,
          h("span", { class: "tag " + (p.alive ? "free" : "bad") }, (p.alive ? "here" : "gone") + (doubt ? "?" : "")), h("b", {}, id),
          h("span", { class: "muted" }, p.since === null ? "" : (p.alive ? "since " : "born or gone ") + clock(p.since)),
          h("span", { class: "does" }, ...tell("root of", d.roots.map((t) => h("a", { href: "#/tree/" + encodeURIComponent(t) }, t))),
            ...tell("holds", d.holds.map((s) => anchor(s, held(s)))), ...tell("waits for", d.waits.map((s) => anchor(s, name(s))))));
      }
      row.hidden = !matchText(id + " " + d.holds.map(held).join(" "), search);
      if (this.element.children[i] !== row) this.element.insertBefore(row, this.element.children[i] ?? null);
    });
  }
}

const name = (s) => (s.resource === "default" ? s.topic : s.topic + " " + s.resource);
const held = (s) => (s.via ? `${name(s)} for ${s.holder}` : name(s));
const anchor = (s, text) => h("a", { href: link(s.topic, s.resource) }, text);

function tell(verb, links) {
  if (links.length === 0) return [];
  const shown = links.slice(0, NAMED).flatMap((a, i) => (i ? [", ", a] : [a]));
  return [h("span", {}, verb + " ", ...shown, links.length > NAMED ? ` and ${links.length - NAMED} more` : null)];
}
