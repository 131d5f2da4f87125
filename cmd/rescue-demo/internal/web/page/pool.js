// The one queue of all frequencies: a request for any of them is in the queue of each.

/**
 * poolOf merges what Rescue.frequency returns for each frequency into one queue. A request for
 * any of them is there once, with only: "", and a request for a certain one with its name.
 * waiting is how many wait; if more is true, there may be more. doubt: it was so.
 */
export function poolOf(frequencies) {
  const best = [...frequencies].sort((a, b) => a.doubt - b.doubt || b.heard - a.heard);
  const queue = [];
  let whole = true; // all requests for any frequency are known
  for (const f of best) {
    merge(queue, f, whole && f !== best[0]);
    whole = whole && f.waiting <= f.queue.length;
  }
  const more = frequencies.some((f) => f.waiting > f.queue.length);
  const waiting = Math.max(queue.length, ...frequencies.map((f) => (more ? f.waiting : 0)));
  return { queue, waiting, more, doubt: frequencies.every((f) => f.doubt) };
}

// merge puts the requests of a frequency into the queue, each behind those that are before it
// there. stale: a later word has named all requests for any frequency, and the others have ended.
function merge(queue, f, stale) {
  const met = new Set();
  let at = 0;
  for (const w of f.queue) {
    const same = w.any ? queue.find((o) => !met.has(o) && sameRequest(o, w)) : undefined;
    if (same) {
      met.add(same);
      at = queue.indexOf(same) + 1;
    } else if (!w.any || !stale) {
      while (at < queue.length && !met.has(queue[at]) && queue[at].only) at++; // whose frequency was first
      const row = { ...w, only: w.any ? "" : f.name, doubt: f.doubt };
      queue.splice(at++, 0, row);
      met.add(row);
    }
  }
}

const sameRequest = (o, w) => !o.only && o.participant === w.participant && o.via === w.via && o.priority === w.priority;
