// Two recordings under one clock, and the clock with its controls.
import { h, setText, span } from "/base/dom.js";
import { NoRecording, Player, readRecording } from "/base/recording.js";

const TICK = 50; // ms between two looks at what is due
const SPEEDS = [0.5, 1, 2, 4];

/** openBoth reads the recordings that this page is served with. */
export async function openBoth() {
  const paths = ["/recording", "/recording/2"];
  return together(await Promise.all(paths.map(async (path) => readRecording((await fetch(path)).body))));
}

// began is when the run of a recording began, in ms since the start of the recording.
function began({ messages, started }) {
  const scene = messages.find(({ levels }) => levels[0] === "show" && levels[1] === "scene");
  try {
    const { start } = JSON.parse(new TextDecoder().decode(scene.payload));
    if (Number.isFinite(start)) return start - started;
  } catch {
    // below
  }
  throw new NoRecording("it is of no run of rescue-demo: --record makes one");
}

/**
 * together makes one recording of two, with the number of each, "0" or "1", before the levels of its messages. Both
 * runs begin at the same moment, that of the first one.
 */
export function together(both) {
  const [zero] = both.map(began);
  const messages = both.flatMap((r, i) => {
    const later = zero - began(r);
    return r.messages.map((m) => ({ ...m, ms: Math.max(0, m.ms + later), levels: [String(i), ...m.levels] }));
  });
  messages.sort((a, b) => a.ms - b.ms); // which keeps the order of each
  return { started: both[0].started, length: messages.at(-1).ms, messages, cut: both.some((r) => r.cut) };
}

/** play plays a recording and returns {player, element}, its clock and its controls. on are the Player's onMessage and onReset. */
export function play(recording, on) {
  const player = new Player(recording, { ...on, onChange: () => show() });
  const button = h("button", { type: "button", id: "play", onclick: () => (player.playing ? player.pause() : player.play()) });
  const place = h("input", { type: "range", id: "moment", min: 0, max: recording.length, step: 1, "aria-label": "Moment", oninput: () => player.seek(Number(place.value)) });
  const speed = h("select", { id: "pace", "aria-label": "Speed", onchange: () => player.setSpeed(Number(speed.value)) },
    ...SPEEDS.map((s) => h("option", { value: s, selected: s === 1 }, `${s}×`)));
  const time = h("span", { class: "num", id: "replayed" });
  const element = h("section", { class: "replay card", "aria-label": "Replay" }, button, speed, place, time,
    recording.cut ? h("span", { class: "muted" }, "a recording breaks off at its end") : null);
  function show() {
    const text = `${span(player.at)} of ${span(recording.length)}`;
    setText(button, player.playing ? "pause" : "play");
    if (document.activeElement !== place || player.playing) place.value = player.at;
    place.setAttribute("aria-valuetext", text);
    setText(time, text);
  }
  setInterval(() => {
    if (!player.playing) return;
    player.tick();
    show();
  }, TICK);
  player.seek(0);
  player.play();
  return { player, element };
}
