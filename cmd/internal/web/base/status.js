// What both pages show alike: the connection, how old the data is, and the question for a password.
import { h, setText } from "./dom.js";

const SIGNS = { connecting: "…", connected: "●", silent: "▲", offline: "▲", refused: "✕", replay: "▶" };

/** statusBadge returns {element, age, show(status)} for the status of connect(); age is for what Freshness says. */
export function statusBadge() {
  const sign = h("span", { class: "sign", "aria-hidden": "true" });
  const text = h("span", { class: "text" });
  const element = h("output", { class: "status", id: "connection", "aria-live": "polite" }, sign, text);
  return {
    element,
    age: h("span", { class: "age", id: "age" }),
    show(status) {
      element.dataset.state = status.state;
      element.dataset.session = status.session;
      setText(sign, SIGNS[status.state]);
      setText(text, status.text);
    },
  };
}

/** askPassword shows a dialog and resolves to the password, or to null if it was closed. */
export function askPassword(user) {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", name: "password", autocomplete: "current-password", required: true });
    const dialog = h("dialog", { class: "ask" },
      h("form", { method: "dialog" },
        h("label", {}, `Password of ${user} at the broker`, input),
        h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"), h("button", { value: "ok", class: "first" }, "Log in"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? input.value : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}
