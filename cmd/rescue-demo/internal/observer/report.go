package observer

import (
	"cmp"
	"slices"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
)

// Report is what a history shows.
type Report struct {
	Entries int
	Losses  int // entries which ended because the hold was lost
	Pending int // requests which still wait
	Frames  int
	Ignored int // events that made no sense
	// Switched is when the priority model was first changed; zero: never.
	Switched   time.Time
	Phases     []Phase
	Overlaps   Overlaps
	Inversions Inversions
	Fair       Fair
	// SyncDelay is the time between a release and the next entry of the same
	// frequency while somebody waited.
	SyncDelay Delay
	Classes   [scenario.Classes]Class
}

// Overlaps counts what must not happen, by how it shows.
type Overlaps struct {
	Intervals int // pairs of holds of one frequency at the same time
	Fences    int // entries without a higher fence than the entry before
	Frames    int // frames with a lower fence than one before on the frequency
}

// Total returns the sum.
func (o Overlaps) Total() int { return o.Intervals + o.Fences + o.Frames }

// Inversions counts entries which were made while a strictly more important
// request was pending anywhere.
type Inversions struct {
	Pending     int // all of them
	Level, Fair int // those under either priority model
}

// Class is what the robots of one class got.
type Class struct {
	Wait Delay
	// InVain is the longest wait without an entry: of a request that still waits or was withdrawn.
	InVain                    time.Duration
	AirtimeLevel, AirtimeFair time.Duration // on the air under either priority model
}

// Phase is a time under one priority model; the next one ends it.
type Phase struct {
	From time.Time
	Fair bool
}

// FairAt reports whether fair was in force at t.
func (r *Report) FairAt(t time.Time) bool {
	fair := false
	for _, p := range r.Phases {
		if p.From.After(t) {
			break
		}
		fair = p.Fair
	}
	return fair
}

// Report judges everything up to now. Holds that have not ended are taken to
// last until now.
func (h *History) Report(now time.Time) Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.believeView(now)
	r := Report{Frames: h.frames, Ignored: h.ignored, Switched: h.switched(), Phases: h.phases()}
	r.Overlaps.Frames = h.stale
	for _, q := range h.requests {
		if q.done.IsZero() {
			r.Pending++
		}
	}
	var waits [scenario.Classes][]time.Duration
	var all []entry
	var gaps []gap
	for _, entries := range h.byFrequency(now) {
		r.Overlaps.Intervals += overlapping(entries)
		r.Overlaps.Fences += notRising(entries)
		gaps = append(gaps, gapsOf(entries)...)
		all = append(all, entries...)
	}
	for _, e := range all {
		class := scenario.ClassOfPriority(e.priority)
		waits[class] = append(waits[class], e.at.Sub(h.requests[e.request].asked))
		r.count(e, class)
	}
	r.Inversions = h.inversions(all)
	r.Fair = h.underFair(all, now)
	h.inVain(&r, now)
	for class := range waits {
		r.Classes[class].Wait = delayOf(waits[class])
	}
	r.SyncDelay = delayOf(h.syncDelays(gaps))
	return r
}

// inVain finds the longest wait without an entry of each class, by the priority of the request at its end.
func (h *History) inVain(r *Report, now time.Time) {
	entered := map[string]bool{}
	for id := range h.entries {
		entered[id.request] = true
	}
	for id, q := range h.requests {
		if entered[id] || q.asked.IsZero() || len(q.priorities) == 0 {
			continue
		}
		end := now
		if !q.done.IsZero() {
			end = q.done
		}
		c := &r.Classes[scenario.ClassOfPriority(q.priorityAt(end))]
		c.InVain = max(c.InVain, end.Sub(q.asked))
	}
}

// Progress is what is certain while the observation goes on.
type Progress struct {
	Entries  int
	Switched time.Time // when the priority model was first changed; zero: not yet
	Overlaps Overlaps  // without those of holds that have not been seen to end
}

// Progress tells what is certain by now: the end of a hold may be on its way, as
// long as its robot is cut off.
func (h *History) Progress() Progress {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := Progress{Entries: len(h.entries), Switched: h.switched(), Overlaps: Overlaps{Frames: h.stale}}
	for _, entries := range h.byFrequency(time.Time{}) {
		p.Overlaps.Intervals += overlapping(entries)
		p.Overlaps.Fences += notRising(entries)
	}
	return p
}

func (r *Report) count(e entry, class scenario.Class) {
	r.Entries++
	if e.lost {
		r.Losses++
	}
	c := &r.Classes[class]
	fair := time.Duration(0)
	for i, p := range r.Phases {
		end := e.end
		if i+1 < len(r.Phases) {
			end = earlier(end, r.Phases[i+1].From)
		}
		if p.Fair {
			fair += max(0, end.Sub(later(e.at, p.From)))
		}
	}
	c.AirtimeFair += fair
	c.AirtimeLevel += e.end.Sub(e.at) - fair
}

// byFrequency returns copies of the entries of each frequency, in the order in
// which they were made, all with an end: now, for those which have not ended, and
// never before they began.
func (h *History) byFrequency(now time.Time) map[string][]entry {
	asked := h.askings()
	all := map[string][]entry{}
	for _, e := range h.entries {
		c := *e
		if c.end.IsZero() {
			c.end = h.latestEnd(c, asked[c.participant], now)
		}
		c.end = later(c.end, c.at)
		all[c.resource] = append(all[c.resource], c)
	}
	for _, entries := range all {
		slices.SortFunc(entries, func(a, b entry) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.fence, b.fence), cmp.Compare(a.request, b.request))
		})
	}
	return all
}

// latestEnd bounds an entry whose end went unseen, as happens when the message
// is on the way at the moment at which the robot drops out: a robot asks again
// only after it has left, so its next request tells. One that died and has not
// come back transmits no more, nor does a life that was followed by another.
// Otherwise it is inside until now.
func (h *History) latestEnd(e entry, asked []time.Time, now time.Time) time.Time {
	if l := h.lives[e.participant]; l != nil {
		if i := slices.IndexFunc(l.ends, e.at.Before); i >= 0 {
			return l.ends[i]
		}
	}
	next, _ := slices.BinarySearchFunc(asked, e.at, func(t, at time.Time) int {
		if t.After(at) {
			return 1
		}
		return -1
	})
	if next < len(asked) {
		return asked[next]
	}
	if died, ok := h.deaths[e.participant]; ok {
		return earlier(died, now)
	}
	return now
}

// askings returns when each participant asked, in order.
func (h *History) askings() map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, q := range h.requests {
		all[q.participant] = append(all[q.participant], q.asked)
	}
	for _, times := range all {
		slices.SortFunc(times, time.Time.Compare)
	}
	return all
}

// overlapping counts the pairs of entries, given in order, that were inside at
// the same time. A hold may begin at the instant at which another ends.
func overlapping(entries []entry) (pairs int) {
	var inside []entry
	for _, e := range entries {
		inside = slices.DeleteFunc(inside, func(o entry) bool { return !o.end.After(e.at) })
		pairs += len(inside)
		inside = append(inside, e)
	}
	return pairs
}

// notRising counts the entries, given in order, whose fence is not above every
// fence before it.
func notRising(entries []entry) (n int) {
	highest := uint64(0)
	for _, e := range entries {
		if e.fence <= highest {
			n++
		}
		highest = max(highest, e.fence)
	}
	return n
}

// gap is the time from a release of a frequency to the next entry.
type gap struct {
	frequency  string
	begin, end time.Time
}

// gapsOf returns the gaps between the entries of one frequency, given in order.
// The one after a loss does not count: it is idle by design until the loser is
// sure to know.
func gapsOf(entries []entry) (gaps []gap) {
	for i, next := range entries {
		if i > 0 && !entries[i-1].lost && !entries[i-1].end.After(next.at) {
			gaps = append(gaps, gap{next.resource, entries[i-1].end, next.at})
		}
	}
	return gaps
}

// syncDelays returns how long those gaps were in which somebody waited for the
// frequency from the beginning.
func (h *History) syncDelays(gaps []gap) (delays []time.Duration) {
	slices.SortFunc(gaps, func(a, b gap) int { return a.begin.Compare(b.begin) })
	crowd := h.crowd()
	for _, g := range gaps {
		wants := func(q *request) bool { return q.wants(g.frequency) }
		if slices.ContainsFunc(crowd.at(g.begin), wants) {
			delays = append(delays, g.end.Sub(g.begin))
		}
	}
	return delays
}

func (h *History) inversions(entries []entry) (n Inversions) {
	slices.SortFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	crowd := h.crowd()
	for _, e := range entries {
		moreImportant := func(q *request) bool { return q.wants(e.resource) && q.priorityAt(e.at) < e.priority }
		if !slices.ContainsFunc(crowd.at(e.at), moreImportant) {
			continue
		}
		n.Pending++
		if h.fair(e.at) {
			n.Fair++
		} else {
			n.Level++
		}
	}
	return n
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
