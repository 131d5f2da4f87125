// The replay of a recording: its player with controls, in the place of a connection.
import { Player, readRecording } from "/base/recording.js";
import { h, setText, span, clock } from "/base/dom.js";

const TICK = 50; // ms between two looks at what is due
const SPEEDS = [0.1, 0.5, 1, 2, 4, 16];

/** openRecording reads the one that this page is served with. */
export async function openRecording() {
  const answer = await fetch("/recording");
  if (!answer.ok) throw new Error(`the recording cannot be had: ${answer.status} ${answer.statusText}`);
  return readRecording(answer.body);
}

/**
 * startReplay plays a recording from a moment on, or, if one is given, shows that moment.
 * It returns {player, element, close}; on are the Player's onMessage and onReset.
 */
export function startReplay(recording, moment, on) {
  const player = new Player(recording, { ...on, onChange: () => show() });
  const play = h("button", { type: "button", id: "play", onclick: () => (player.playing ? player.pause() : player.play()) });
  const next = h("button", { type: "button", id: "next", onclick: () => player.nextEntry() }, "next entry");
  const place = h("input", { type: "range", id: "moment", min: 0, max: recording.length, step: 1, "aria-label": "Moment", oninput: () => player.seek(Number(place.value)) });
  const speed = h("select", { id: "pace", "aria-label": "Speed", onchange: () => player.setSpeed(Number(speed.value)) },
    ...SPEEDS.map((s) => h("option", { value: s, selected: s === 1 }, `${s}×`)));
  const time = h("span", { class: "num", id: "replayed" });
  const link = h("a", { id: "here", title: "an address of this moment" }, "link");
  const element = h("section", { class: "replay", "aria-label": "Replay" }, play, next, speed, place, time, link,
    recording.cut ? h("span", { class: "muted" }, "the recording breaks off at its end") : null);

  function show() {
    const text = `${span(player.at)} of ${span(recording.length)} · ${clock(player.now)}`;
    setText(play, player.playing ? "pause" : "play");
    if (document.activeElement !== place || player.playing) place.value = player.at;
    place.setAttribute("aria-valuetext", text);
    setText(time, text);
    link.href = `?at=${(player.at / 1000).toFixed(3)}${location.hash}`;
  }

  const ticking = setInterval(() => {
    if (!player.playing) return;
    player.tick();
    show();
  }, TICK);
  player.seek(moment ?? 0);
  if (moment === null) player.play();
  show();
  return {
    player,
    element,
    close() {
      clearInterval(ticking);
      element.remove();
    },
  };
}

/** momentOf is what the address of the page names, in ms since the start of the recording, or null. */
export function momentOf(search) {
  const at = new URLSearchParams(search).get("at");
  return at !== null && Number.isFinite(Number(at)) ? Number(at) * 1000 : null;
}
