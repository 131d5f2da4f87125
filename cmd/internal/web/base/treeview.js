// Draws a spanning tree, and the messages that travel along its edges.
import { svg, h, setText, setAttribute, visible } from "./dom.js";
import { layout, along } from "./tree.js";

export const HOP = { live: 350, slow: 1600 }; // ms that a message takes for an edge
const MOST = 60; // messages drawn at a time, or waiting to be
const SHAPES = { request: "M0,-7 6.5,5 -6.5,5Z", reply: "M-6,0a6,6 0 1,0 12,0a6,6 0 1,0 -12,0", release: "M-5.5,-5.5h11v11h-11Z" };
const OFFSETS = { request: -5, reply: 0, release: 5 }; // so that those of the same moment can be told apart
const FONT = 13, CHARACTER = 7.6, NAME = 22;

export class TreeView {
  /** onPick(id) is called when a member is chosen. */
  constructor({ onPick = () => {} } = {}) {
    this.onPick = onPick;
    this.speed = "live";
    this.edges = new Map(); // "from\nto" of a child and its parent: points
    this.drawn = ""; // what the picture shows
    this.shown = new Map(); // by id: Node
    this.moving = [];
    this.waiting = [];
    this.sent = { request: 0, reply: 0, release: 0 };
    this.lines = svg("g", { class: "edges" });
    this.nodes = svg("g", { class: "nodes" });
    this.messages = svg("g", { class: "messages", "aria-hidden": "true" });
    this.svg = svg("svg", { class: "tree", role: "group", "aria-label": "Spanning tree" }, this.lines, this.messages, this.nodes);
    this.backlog = h("span", { class: "muted num", id: "backlog" });
    this.element = h("div", { class: "tree-view" }, this.svg);
    this.svg.addEventListener("keydown", (e) => this.#keys(e));
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.step = this.step.bind(this);
  }

  /** show draws members (of treeOf). notes tells what to say of some: Map of id: {text, held}. */
  show(members, notes = new Map()) {
    const room = Math.max(280, this.element.clientWidth || 600);
    const picture = JSON.stringify([room, members]);
    if (picture !== this.drawn) {
      this.drawn = picture;
      this.#draw(members, room);
    }
    for (const node of this.shown.values()) node.note(notes.get(node.member.id));
  }

  #draw(members, room) {
    // By the names alone: the picture must not jump when a note changes.
    const longest = members.reduce((n, m) => Math.max(n, m.id.length), 8);
    const place = layout(members, room, Math.min(longest, NAME) * CHARACTER + 40);
    setAttribute(this.svg, "viewBox", `0 0 ${place.width} ${place.height}`);
    setAttribute(this.svg, "data-kind", place.kind);
    this.svg.style.width = place.kind === "rings" ? "100%" : place.width + "px";
    this.svg.style.maxHeight = place.kind === "rings" ? "80vh" : "none";
    this.edges.clear();
    this.lines.replaceChildren(...place.edges.map((e) => {
      this.edges.set(e.from + "\n" + e.to, e.points);
      return svg("polyline", { points: e.points.map((p) => p.join()).join(" "), class: "edge" });
    }));
    const focused = this.nodes.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.shown = new Map(place.nodes.map((n) => [n.id, new Node(n, place.kind, this.onPick)]));
    this.nodes.replaceChildren(...[...this.shown.values()].map((n) => n.element));
    const stop = this.shown.get(focused) ?? this.shown.values().next().value;
    stop?.element.setAttribute("tabindex", 0);
    if (focused && stop?.member.id === focused) stop.element.focus();
  }

  // The Tab key stops at one member; arrows lead to the others.
  #keys(e) {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key];
    const all = [...this.nodes.children], at = all.indexOf(document.activeElement);
    const next = all[at + step];
    if (at < 0 || !next) return;
    all[at].setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
    e.preventDefault();
    e.stopPropagation();
  }

  /** message has a lock message of a kind travel from one member to another. */
  message(from, to, kind) {
    const up = this.edges.get(from + "\n" + to), down = this.edges.get(to + "\n" + from);
    if (this.speed === "off" || !SHAPES[kind] || (!up && !down)) return;
    this.sent[kind]++;
    if (document.hidden) return;
    const list = this.speed === "slow" ? this.waiting : this.moving;
    if (list.length >= MOST) list.shift().shape?.remove();
    list.push({ from, to, kind });
    if (!this.running) {
      this.running = true;
      requestAnimationFrame(this.step);
    }
  }

  step(now) {
    if (this.moving.length === 0 && this.waiting.length > 0) this.moving.push(this.waiting.shift());
    setText(this.backlog, this.waiting.length ? `${this.waiting.length} more to show` : "");
    const hop = HOP[this.speed] ?? HOP.live;
    this.moving = this.moving.filter((m) => {
      m.begun ??= now;
      const part = (now - m.begun) / hop;
      const up = this.edges.get(m.from + "\n" + m.to);
      const points = up ?? this.edges.get(m.to + "\n" + m.from);
      if (part >= 1 || !points) {
        m.shape?.remove();
        return false;
      }
      if (!m.shape) {
        m.shape = svg("path", { d: SHAPES[m.kind], class: "message " + m.kind });
        this.messages.append(m.shape);
      }
      const t = this.still.matches ? 0.5 : part;
      const [x, y] = along(points, up ? t : 1 - t);
      const aside = OFFSETS[m.kind];
      m.shape.setAttribute("transform", `translate(${(x + aside).toFixed(1)},${(y + aside).toFixed(1)})`);
      return true;
    });
    this.running = this.moving.length + this.waiting.length > 0;
    if (this.running) requestAnimationFrame(this.step);
  }

  /** setSpeed is "live", "slow" (one after the other) or "off". */
  setSpeed(speed) {
    this.speed = speed;
    this.waiting = [];
  }

  /** legend explains the signs. */
  legend() {
    const sign = (kind) => svg("svg", { viewBox: "-8 -8 16 16", class: "sign", "aria-hidden": "true" }, svg("path", { d: SHAPES[kind], class: "message " + kind }));
    const candidate = svg("svg", { viewBox: "-8 -8 16 16", class: "tree sign", "aria-hidden": "true" }, svg("circle", { r: 4, class: "dot" }));
    const holder = svg("svg", { viewBox: "-8 -8 16 16", class: "tree sign", "aria-hidden": "true" },
      svg("g", { class: "held" }, svg("rect", { x: -7, y: -5, width: 14, height: 10, rx: 5, class: "body" })));
    return h("p", { class: "legend" }, h("span", {}, candidate, "can become the root"), h("span", {}, holder, "holds a lock"),
      h("span", {}, sign("request"), "Request"), h("span", {}, sign("reply"), "Reply (the token)"), h("span", {}, sign("release"), "Release"));
  }
}

/** Node is a member in the picture: a pill with its name, or a dot where there are many. */
class Node {
  constructor(member, kind, onPick) {
    this.member = member;
    this.kind = kind;
    const m = member;
    this.title = svg("title");
    this.element = svg("g", { "data-id": m.id, "data-role": m.alive ? m.role : "gone", transform: `translate(${m.x},${m.y})`, tabindex: -1, role: "button" }, this.title);
    this.element.addEventListener("click", () => onPick(m.id));
    this.element.addEventListener("keydown", (e) => e.key === "Enter" && onPick(m.id));
    if (kind === "rings") this.#dot();
    else this.#pill();
  }

  #dot() {
    const root = this.member.role === "root";
    this.element.append(svg("circle", { r: root ? 9 : 5, class: "body" }));
    if (root) this.element.append(svg("circle", { r: 13, class: "ring" }), svg("text", { class: "name", y: -20, "text-anchor": "middle" }, short(this.member.id)));
    this.element.append(svg("path", { d: "M0,-8 8,0 0,8 -8,0Z", class: "sign" })); // seen while it holds something
  }

  #pill() {
    const name = short(this.member.id), dot = this.member.candidate ? 12 : 0, root = this.member.role === "root";
    const width = name.length * CHARACTER + 22 + dot;
    const left = this.kind === "down" ? -width / 2 : -12;
    if (root) this.element.append(svg("rect", { x: left - 4, y: -18, width: width + 8, height: 36, rx: 18, class: "ring" }));
    this.element.append(svg("rect", { x: left, y: -14, width, height: 28, rx: 14, class: "body" }));
    if (dot) this.element.append(svg("circle", { cx: left + 13, r: 3.5, class: "dot" }));
    this.element.append(svg("text", { class: "name", x: left + (width + dot) / 2, y: FONT / 3, "text-anchor": "middle" }, name));
    this.under = this.kind === "down"
      ? svg("text", { class: "note", y: root ? 34 : 30, "text-anchor": "middle" })
      : svg("text", { class: "note", x: left + width + 12, y: FONT / 3 });
    this.element.append(" ", this.under); // a screen reader takes them for one word otherwise
  }

  /** note says what the member does: {text, held}, or nothing. */
  note(note) {
    const m = this.member;
    const said = `${note?.text ?? ""}\n${note?.held ?? ""}`;
    if (said === this.said) return;
    this.said = said;
    setAttribute(this.element, "class", ["node", m.role, m.candidate && "candidate", note?.held && "held", !m.alive && "gone"].filter(Boolean).join(" "));
    const under = [m.alive ? m.role !== "member" && m.role : "gone", note?.text].filter(Boolean).join(" · ");
    const shown = short(m.id);
    const seen = under ? `${shown} ${under}` : shown; // the label begins with it, for those who choose a node by saying what they see
    const more = [shown !== visible(m.id) && m.id, m.alive && m.role === "member" && "member", m.candidate && m.role !== "root" && "candidate", `priority ${m.priority}`];
    const text = [seen, ...more].filter(Boolean).join(", ");
    setText(this.title, text);
    setAttribute(this.element, "aria-label", text);
    if (this.under) setText(this.under, under);
  }
}

function short(id) {
  const name = visible(id); // which is longer
  return name.length > NAME ? name.slice(0, 10) + "…" + name.slice(-10) : name;
}
