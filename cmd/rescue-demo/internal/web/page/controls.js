// The commands that are not for one robot, and the answers to all.
import { h, setText, setAttribute } from "/base/dom.js";
import { MODELS, newID, seal, switched } from "./command.js";

const PATIENCE = 8000; // ms until a command without an answer is given up
const READ = 6000; // ms that an answer stays

/** Commands sends commands and shows what became of them. */
export class Commands {
  constructor(key, publish, log) {
    this.key = key;
    this.publish = publish;
    this.log = log;
    this.open = new Map(); // by id: what was asked for, in words
  }

  async send(words, command) {
    const id = newID();
    this.open.set(id, words);
    setTimeout(() => this.open.delete(id) && this.#say(words, "no answer", false), PATIENCE);
    this.publish(await seal(this.key, command, id));
  }

  answered(payload) {
    let a;
    try {
      a = JSON.parse(payload);
    } catch {
      return;
    }
    const words = this.open.get(a?.id);
    if (!words) return; // another page's
    this.open.delete(a.id);
    this.#say(words, a.ok ? "done" : String(a.error), a.ok);
  }

  #say(words, text, ok) {
    const line = h("p", { class: ok ? "good" : "refused" }, `${ok ? "✓" : "✕"} ${words}: ${text}`);
    this.log.append(line);
    setTimeout(() => line.remove(), READ);
  }
}

/** Global is the bar of models, root and broker. */
export class Global {
  constructor(element, send, run) {
    this.models = MODELS.map((model, i) => {
      const buttons = model.values.map((value) => h("button", {
        class: "small", "data-model": model.name, "data-value": value,
        onclick: () => {
          const models = switched(run.view?.models, i, value);
          if (models) send(`${model.name} ${value}`, { do: "models", models });
        },
      }, value));
      element.append(h("div", { class: "group", role: "group", "aria-label": `${model.name} model` }, h("span", { class: "muted small" }, model.name), ...buttons));
      return { model, buttons };
    });
    this.root = h("button", { class: "small", id: "kill-root", onclick: () => send("kill the root", { do: "killRoot" }) }, "Kill the root");
    this.broker = h("button", { class: "small", id: "stop-broker", onclick: () => send("stop the broker", { do: "stopBroker" }) }, "Stop the broker for 5 s");
    element.append(h("div", { class: "group" }, this.root, this.broker),
      h("p", { class: "muted small" }, "Click on the map to drop a survivor there; from the keyboard, with arrows and Enter once the map has the focus."));
  }

  show(view) {
    const now = (view?.models ?? "").split("-");
    this.models.forEach(({ buttons }, i) => {
      for (const b of buttons) setAttribute(b, "aria-pressed", String(b.dataset.value === now[i]));
    });
    setText(this.root, view?.root ? `Kill the root, ${view.root}` : "Kill the root");
  }
}
