// What `pubsub-node record` wrote, and the clock that goes through it.

/**
 * readRecording reads the gzip stream of JSON lines: {started, length, domain, messages, cut},
 * times in ms since the epoch and since started. A message is {ms, levels, payload, retained},
 * its payload a Uint8Array. cut: the stream breaks off, and is good up to there.
 */
export async function readRecording(stream) {
  let header = null, cut = false;
  const messages = [];
  try {
    for await (const line of lines(stream.pipeThrough(new DecompressionStream("gzip")))) {
      const m = JSON.parse(line);
      if (!header) header = checked(m);
      else if (m.levels) messages.push({ ms: m.ms, levels: m.levels, payload: payloadOf(m), retained: m.retained === true });
    }
  } catch (error) {
    if (!header) throw error instanceof NoRecording ? error : new NoRecording("it cannot be read");
    cut = true;
  }
  if (!header) throw new NoRecording("it is empty");
  return { started: Date.parse(header.started), domain: header.domain, length: messages.at(-1)?.ms ?? 0, messages, cut };
}

/** NoRecording says why a file is none. */
export class NoRecording extends Error {}

function checked(header) {
  if (header.padme !== "recording") throw new NoRecording("its first line is not that of a recording");
  if (header.version !== 1) throw new NoRecording(`it is of version ${header.version}, this page reads version 1`);
  return header;
}

function payloadOf({ text = "", data }) {
  return data === undefined ? new TextEncoder().encode(text) : Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break; // what has no end of line was not written to its end
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

// entriesOf are the times of the states that show a holder for the first time.
function entriesOf(messages) {
  const utf8 = new TextDecoder(), fences = new Map(), times = [];
  for (const { ms, levels, payload } of messages) {
    if (levels[0] !== "lock" || levels[3] !== "state") continue;
    const state = parsed(utf8.decode(payload)), lock = levels[1] + "/" + levels[2];
    if (!state?.holder || fences.get(lock) === state.fence) continue;
    fences.set(lock, state.fence);
    times.push(ms);
  }
  return times;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // anybody may publish anything
  }
}

/**
 * Player goes through a recording: tick() hands over what is due. It plays until it is
 * paused or at the end, where it pauses.
 *
 * onMessage(levels, payload, when) gets each message once, when being its time of day in ms;
 *   onReset is called when it goes back: what came after that moment has not happened.
 * onChange is called when it is told to play, to pause or to go elsewhere.
 */
export class Player {
  constructor(recording, { onMessage, onReset, onChange = () => {}, clock = () => performance.now() }) {
    Object.assign(this, { recording, onMessage, onReset, onChange, clock });
    this.next = 0; // the first message that was not handed over
    this.speed = 1;
    this.playing = false;
    this.base = 0; // the position at the instant since
    this.since = 0;
  }

  /** at is the position, in ms since the start. */
  get at() {
    if (!this.playing) return this.base;
    return Math.min(this.recording.length, this.base + (this.clock() - this.since) * this.speed);
  }

  /** now is the position as a time of day. */
  get now() {
    return this.recording.started + this.at;
  }

  tick() {
    const { messages, length } = this.recording, at = this.at;
    while (this.next < messages.length && messages[this.next].ms <= at) {
      const m = messages[this.next++];
      this.onMessage(m.levels, m.payload, this.recording.started + m.ms);
    }
    if (this.playing && at >= length) this.pause();
  }

  play() {
    if (this.at >= this.recording.length) this.seek(0);
    this.move(this.at, true);
  }

  pause() {
    this.move(this.at, false);
  }

  setSpeed(speed) {
    const at = this.at;
    this.speed = speed;
    this.move(at, this.playing);
  }

  seek(ms) {
    const to = Math.max(0, Math.min(this.recording.length, ms));
    if (to < this.at) {
      this.next = 0;
      this.onReset();
    }
    this.move(to, this.playing);
    this.tick();
  }

  /** nextEntry goes to the next moment at which a lock is seen to have a new holder, and pauses there. */
  nextEntry() {
    this.pause();
    this.entries ??= entriesOf(this.recording.messages);
    this.seek(this.entries.find((ms) => ms > this.at) ?? this.recording.length);
  }

  move(at, playing) {
    Object.assign(this, { base: at, since: this.clock(), playing });
    this.onChange();
  }
}
