// The commands that are not for one robot, and the answers to all.
import { h, setText, setAttribute } from "/base/dom.js";
import { MODELS, change, newID, seal } from "./command.js";

const PATIENCE = 8000; // ms until a command without an answer is given up
const READ = 6000; // ms that an answer stays
const MOST = 4; // answers that stand at a time
const SHOWS = 1000; // ms after which what was done shows, at the latest

/**
 * once has a button do what takes a while, once at a time: a second click of the same hand is
 * none. It is free again when what was done shows, which settled() tells.
 */
export function once(button, act) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled") === "true" || button.ariaBusy === "true") return;
    button.ariaBusy = "true";
    const done = await act();
    if (done) setTimeout(settled, SHOWS, button);
    else settled(button);
  });
  return button;
}

/** settled says that what a button did can be seen. */
export const settled = (button) => button.removeAttribute("aria-busy");

/** Commands sends commands and shows what became of them. */
export class Commands {
  constructor(key, publish, log) {
    this.key = key;
    this.publish = publish;
    this.log = log;
    this.open = new Map(); // by id: {words, ended}, of what was asked for
  }

  /** send returns a promise of whether the command was carried out. */
  async send(words, command) {
    const id = newID();
    const sealed = await seal(this.key, command, id);
    return new Promise((ended) => {
      this.open.set(id, { words, ended });
      setTimeout(() => this.#end(id, "no answer", false), PATIENCE);
      this.publish(sealed);
    });
  }

  #end(id, text, ok) {
    const asked = this.open.get(id);
    if (!asked) return; // another page's, or late
    this.open.delete(id);
    this.#say(asked.words, text, ok);
    asked.ended(ok);
  }

  answered(payload) {
    let a;
    try {
      a = JSON.parse(payload);
    } catch {
      return;
    }
    if (a) this.#end(a.id, a.ok ? "done" : String(a.error), a.ok === true);
  }

  #say(words, text, ok) {
    const line = h("p", { class: ok ? "good" : "refused" }, `${ok ? "✓" : "✕"} ${words}: ${text}`);
    this.log.append(line);
    while (this.log.children.length > MOST) this.log.firstChild.remove();
    setTimeout(() => line.remove(), READ);
  }
}

/** Global is the bar of models, root and broker. */
export class Global {
  constructor(element, send, run) {
    this.models = MODELS.map((model, i) => {
      const buttons = model.values.map((value) => once(h("button", { class: "small", "data-model": model.name, "data-value": value }, value), () => {
        const command = change(run.view?.models, i, value);
        return command && send(`${model.name} ${value}`, command);
      }));
      element.append(h("div", { class: "group", role: "group", "aria-label": `${model.name} model` }, h("span", { class: "muted small" }, model.name), ...buttons));
      return { model, buttons };
    });
    this.root = once(h("button", { class: "small", id: "kill-root" }, "Kill the root"), () => send("kill the root", { do: "killRoot" }));
    this.broker = once(h("button", { class: "small", id: "stop-broker" }, "Stop the broker for 5 s"), () => send("stop the broker", { do: "stopBroker" }));
    element.append(h("div", { class: "group" }, this.root, this.broker));
  }

  show(view, can) {
    for (const b of [...this.models.flatMap((m) => m.buttons), this.root, this.broker]) setAttribute(b, "aria-disabled", can ? null : "true");
    const now = (view?.models ?? "").split("-");
    this.models.forEach(({ buttons }, i) => {
      for (const b of buttons) {
        const pressed = String(b.dataset.value === now[i]);
        if (b.getAttribute("aria-pressed") !== pressed) settled(b);
        setAttribute(b, "aria-pressed", pressed);
      }
    });
    setText(this.root, view?.root ? `Kill the root, ${view.root}` : "Kill the root");
  }
}
