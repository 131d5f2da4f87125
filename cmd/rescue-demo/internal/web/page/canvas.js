// A canvas as wide as its box and sharp on any screen, and the colors of the page.

/** fit sizes a canvas to its box and returns its context, in CSS pixels. */
export function fit(canvas, height) {
  const width = canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + "px";
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

const NAMES = ["bg", "surface", "raised", "line", "line-strong", "text", "muted", "accent", "free", "bad", "held",
  "ground", "ruin", "shadow", "c0", "c1", "c2", "c3", "on-c0", "on-c1", "on-c2", "on-c3"];
let colors;

/** palette returns the colors in force, by name. */
export function palette() {
  if (colors) return colors;
  const style = getComputedStyle(document.documentElement);
  colors = Object.fromEntries(NAMES.map((n) => [n, style.getPropertyValue("--" + n).trim()]));
  colors.sans = style.getPropertyValue("--sans").trim();
  return colors;
}

globalThis.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", () => (colors = undefined));
