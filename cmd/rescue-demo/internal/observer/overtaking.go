package observer

import (
	"slices"
	"strings"
	"time"
)

// Fair is how the requests fared that waited under fair. A wait ends when its robot is
// cut off, and begins again when the robot comes back, because the request then reaches
// the root again. It also begins again when the models change.
type Fair struct {
	Longest   time.Duration // wait of one request
	LongestOf string        // whose it was
	// Overtaken is how many entries one request saw while it waited that were asked for
	// later, of a frequency that it would have taken. Only models without Use and
	// Replace count, under which protocol.FairBound is promised for the whole way.
	Overtaken   int
	OvertakenOf string
	Bounded     bool // such models were in force
}

// period is a time during which the same models were in force.
type period struct {
	from, to time.Time
	models   string
}

func (h *History) periods(now time.Time) (all []period) {
	for i, m := range h.models {
		p := period{m.at, now, m.models}
		if i+1 < len(h.models) {
			p.to = h.models[i+1].at
		}
		if last := len(all) - 1; last >= 0 && all[last].models == p.models {
			all[last].to = p.to
		} else if p.from.Before(p.to) {
			all = append(all, p)
		}
	}
	return all
}

// boundedModels are those under which the number of overtaking requests is promised.
const boundedModels = "fair-forward-forward-forward"

func (h *History) underFair(entries []entry, now time.Time) (f Fair) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, p := range h.periods(now) {
		if !strings.HasPrefix(p.models, "fair") {
			continue
		}
		bounded := p.models == boundedModels
		f.Bounded = f.Bounded || bounded
		for _, q := range h.requests {
			for _, w := range h.waits(q, p) {
				if w.to.Sub(w.from) > f.Longest {
					f.Longest, f.LongestOf = w.to.Sub(w.from), q.participant
				}
				if n := h.overtook(q, entries, w.from, w.to); bounded && n > f.Overtaken {
					f.Overtaken, f.OvertakenOf = n, q.participant
				}
			}
		}
	}
	return f
}

// waits are the parts of p in which q waited and its robot was not cut off.
func (h *History) waits(q *request, p period) (all []period) {
	from, end := later(q.asked, p.from), p.to
	if !q.done.IsZero() {
		end = earlier(end, q.done)
	}
	part := func(from, to time.Time) {
		if from.Before(to) {
			all = append(all, period{from: from, to: to})
		}
	}
	for _, a := range h.absences[q.participant] {
		part(from, earlier(a.from, end))
		if from = later(from, a.to); a.to.IsZero() {
			from = end // it did not come back
		}
	}
	part(from, end)
	return all
}

// overtook counts the entries between two times that q would have taken and that were
// asked for after the first.
func (h *History) overtook(q *request, entries []entry, from, to time.Time) (n int) {
	i, _ := slices.BinarySearchFunc(entries, from, func(e entry, t time.Time) int { return e.at.Compare(t) })
	for _, e := range entries[i:] {
		if !e.at.Before(to) {
			break
		}
		if by := h.requests[e.request]; by != q && by.asked.After(from) && q.wants(e.resource) {
			n++
		}
	}
	return n
}
