// A few helpers instead of a framework.

/** h makes an element: h("a", {href, class, onclick}, "text", child). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** svg makes an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, shown(name, value));
  }
  element.append(...children.filter((c) => c != null && c !== false).map((c) => (typeof c === "string" ? visible(c) : c)));
  return element;
}

/**
 * visible writes characters that cannot be seen as \u{202e}, a lone surrogate and unusual spaces included: names
 * come from others, and one of them may turn the text around it, or look like another name.
 */
export function visible(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]|[^\P{Zs} ]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const READ = new Set(["alt", "aria-label", "placeholder", "title"]); // attributes that a person reads
const shown = (name, value) => (READ.has(name) ? visible(String(value)) : value);

/** setText changes the text of an element only if it differs: the rest costs layout. */
export function setText(element, text) {
  text = visible(String(text));
  const node = element.firstChild;
  if (node?.nodeType === 3 && !node.nextSibling) {
    if (node.data !== text) node.data = text;
  } else if (element.textContent !== text || node) {
    element.textContent = text;
  }
}

/** setAttribute likewise. A null value removes the attribute. */
export function setAttribute(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(shown(name, value))) element.setAttribute(name, shown(name, value));
}

/**
 * morph makes nodes the children of an element, and keeps of those that are there whatever
 * is the same: focus and selection stay where they are. Listeners of nodes are lost. A node
 * with a data-key is the same as the one with that key, wherever it was.
 */
export function morph(element, ...nodes) {
  nodes.forEach((node, i) => {
    const name = node.dataset?.key;
    const keyed = name && [...element.childNodes].slice(i).find((o) => o.dataset?.key === name);
    while (keyed && element.childNodes[i] !== keyed) element.childNodes[i].remove(); // moved, it would lose the focus
    if (name && !keyed) return element.insertBefore(node, element.childNodes[i] ?? null);
    const old = element.childNodes[i];
    if (!old) element.append(node);
    else if (old.nodeName !== node.nodeName) old.replaceWith(node);
    else if (node.nodeType === 3) old.data !== node.data && (old.data = node.data);
    else {
      for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      morph(old, ...node.childNodes);
    }
  });
  while (element.childNodes.length > nodes.length) element.lastChild.remove();
}

/**
 * onFrame returns a function that has draw called once before the next frame is
 * painted, however often it is asked, and pause (ms) after it was last, at the earliest:
 * who reads what changes cannot do so sixty times a second. In a page that nobody sees there are no
 * frames; it is drawn when it is looked at again.
 */
export function onFrame(draw, pause = 0) {
  let asked = false, drawn = -Infinity;
  const next = () => requestAnimationFrame(() => {
    asked = false;
    drawn = performance.now();
    draw();
  });
  return () => {
    if (asked) return;
    asked = true;
    const wait = drawn + pause - performance.now();
    if (wait > 0) setTimeout(next, wait);
    else next();
  };
}

/** span writes a duration in milliseconds with two digits or so: 0.4s, 12s, 3m05s, 2h07m, 3d04h. */
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 10) return (Math.floor(s * 10) / 10).toFixed(1) + "s";
  if (s < 60) return Math.floor(s) + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h" + two((s % 3600) / 60) + "m";
  return Math.floor(s / 86400) + "d" + two((s % 86400) / 3600) + "h";
}

/** clock writes a time of day. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}
