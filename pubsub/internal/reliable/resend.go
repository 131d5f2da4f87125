package reliable

import (
	"cmp"
	"math"
	"slices"
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

const (
	// repairBurst bounds the samples sent again for one request, repairBytes
	// their size; the heartbeat after them makes the reader ask for the rest. Lock
	// messages wait behind them.
	repairBurst = 256
	repairBytes = 256 << 10
	// leastBurst is what they shrink to where brokers drop what comes at once: mosquitto
	// keeps at most 20 messages on the way to a client, and as many more as it queues.
	leastBurst = 16
	// maxLooked bounds the search for what is held, whatever a reader asks for.
	maxLooked = 1 << 16
	// maxDoubts bounds how often in a row a reader that does not believe what is not held any
	// more is asked again as soon as may be: others may be heard for seconds.
	maxDoubts = 5
	// maxPatience bounds how long what was sent again is waited for.
	maxPatience = 10 * time.Second
)

// A burst is what was sent again to a reader and is on its way. How long that takes is
// learned: behind a slow broker, the same once more and once more would only make the
// queue longer, and everything in it later.
type burst struct {
	last     uint64 // up to which sample; 0 for none
	most     int    // samples the next one may have; 0 for repairBurst
	sent     time.Time
	patience time.Duration // after which nothing has come of it
	futile   bool          // the one before was given up: what comes may be of either
}

// came follows that the reader has the last of it, and perhaps all before. What is missing is
// lost, or not held any more, which the reader believes only later: neither makes the way slower.
func (b *burst) came(now time.Time, all bool) {
	if b.last == 0 {
		return
	}
	if !b.futile {
		b.patience = min(2*now.Sub(b.sent), maxPatience)
		if all {
			b.most = min(2*b.size(), repairBurst)
		}
	}
	b.last, b.futile = 0, false
}

// await gives it up if it is too late.
func (b *burst) await(now time.Time) {
	b.patience = max(b.patience, minBeat)
	if b.last > 0 && now.Sub(b.sent) >= b.patience {
		b.last, b.futile = 0, true
		b.patience = min(2*b.patience, maxPatience)
		b.most = max(b.size()/4, leastBurst)
	}
}

// lose follows a reconnection, which may have cost what was sent, or not: how long that takes is
// known no better.
func (b *burst) lose() { b.last, b.futile = 0, b.futile || b.last > 0 }

func (b *burst) size() int { return cmp.Or(b.most, repairBurst) }

// has reports whether a reader has a sample, even if it lacks some before it.
func has(m *wire.Repair, seq uint64) bool {
	if m.A >= seq {
		return true
	}
	if i := slices.IndexFunc(m.Ranges, func(lacks wire.Range) bool { return lacks.Last >= seq }); i >= 0 {
		return m.Ranges[i].First > seq
	}
	return 0 < len(m.Ranges) && len(m.Ranges) < wire.MaxRanges // else there may be more
}

// resend answers a request; it returns the last number that it sent, 0 for none, and
// whether the reader should be told what else there is.
func (s *Sender) resend(to wire.GUID, ranges []wire.Range) (last uint64, more bool) {
	now := time.Now()
	s.expire(now)
	passed := s.out.Passed()
	reader := s.readers[to]
	if !reader.waits.IsZero() && now.Sub(reader.waits) >= maxBeat {
		passed = math.MaxUint64 // what holds it up may do so for ever
	}
	var gaps []wire.Range
	samples, size, looked := 0, 0, 0
	enough := func() bool {
		return samples >= reader.burst.size() || size >= repairBytes || looked >= maxLooked
	}
	for _, want := range ranges {
		for n := max(want.First, 1); n <= min(want.Last, s.seq) && !enough(); n++ {
			h := s.held[n]
			switch {
			case !reader.wants(h):
				// Up to the next one held, or all that is wanted.
				end := max(n, min(want.Last, s.low-1))
				for end < min(want.Last, s.seq) && !reader.wants(s.held[end+1]) && looked < maxLooked {
					end++
					looked++
				}
				gaps = append(gaps, wire.Range{First: n, Last: end})
				n = end
			case h.place > passed: // on its way for the first time, as all after it are
				if reader.waits.IsZero() {
					reader.waits = now
				}
				s.sendGaps(to, gaps)
				return last, samples > 0
			default:
				s.send(to, &wire.Repair{Op: wire.OpSample, Key: h.key, Sample: h.payload})
				samples, size, last = samples+1, size+len(h.payload), max(last, n)
			}
		}
	}
	s.sendGaps(to, gaps)
	more = samples > 0
	if !more && len(gaps) > 0 { // who does not believe that yet is soon asked again: see isQuiet
		more = looked >= maxLooked && reader.doubts == 0
		if reader.doubts++; reader.doubts <= maxDoubts {
			reader.interval, reader.beat = minBeat, timing.Earliest(reader.beat, now.Add(minBeat))
		}
	}
	return last, more
}

func (s *Sender) sendGaps(to wire.GUID, gaps []wire.Range) {
	for some := range slices.Chunk(gaps, wire.MaxRanges) {
		s.send(to, &wire.Repair{Op: wire.OpGap, Ranges: some})
	}
}
