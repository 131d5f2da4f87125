package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"padme/qosmutex/sim"
)

// ErrPlan is wrapped by every error about a requirement, a figure or a problem.
var ErrPlan = errors.New("plan: wrong problem")

// Figures are what one run measured, by name: "wait.p99", or "wait.p99[0]" of those who asked
// with priority 0. Times are in seconds. What was not measured is not there.
type Figures map[string]float64

// quantity is what a figure is about.
type quantity struct {
	name  string
	what  string // for people
	most  bool   // the greatest is the best
	times bool   // in seconds
	of    func(*sim.Report) (value float64, known bool)
}

func always(f func(*sim.Report) float64) func(*sim.Report) (float64, bool) {
	return func(r *sim.Report) (float64, bool) { return f(r), true }
}

var quantities = []quantity{
	{"wait.p50", "half of the requests wait no longer", false, true, waiting(func(w *sim.WaitTimes) float64 { return w.P50 })},
	{"wait.p99", "99 % of the requests wait no longer", false, true, waiting(func(w *sim.WaitTimes) float64 { return w.P99 })},
	{"wait.max", "the longest wait", false, true, waiting(func(w *sim.WaitTimes) float64 { return w.Max })},
	{"wait.mean", "the mean wait", false, true, waiting(func(w *sim.WaitTimes) float64 { return w.Mean })},
	{"never", "participants that asked and never entered", false, false, always(func(r *sim.Report) float64 { return float64(r.Starvation.Nodes) })},
	{"fairness", "Jain's index of the entries", true, false, always(func(r *sim.Report) float64 { return r.Fairness })},
	{"entries", "in the measured time", true, false, always(func(r *sim.Report) float64 { return float64(r.Entries.Total) })},
	{"delay", "from a leave to the next entry", false, true, func(r *sim.Report) (float64, bool) { return r.SyncDelay.Mean, r.Entries.Total > 1 }},
	{"messages", "for each entry", false, false, func(r *sim.Report) (float64, bool) { return r.Messages.PerEntry, r.Entries.Total > 0 }},
	{"upkeep", "other messages in a second", false, false, func(r *sim.Report) (float64, bool) {
		return float64(r.Messages.Upkeep) / r.Measured, r.Measured > 0
	}},
	{"inversions", "entries while a more important request waited", false, false, always(func(r *sim.Report) float64 { return float64(r.Inversions.Overtakers) })},
	{"missed", "deadlines that were admitted and not met", false, false, always(func(r *sim.Report) float64 { return float64(r.Deadlines.Missed) })},
	{"refused", "deadlines that were refused at once", false, false, always(func(r *sim.Report) float64 { return float64(r.Deadlines.Refused) })},
	{"recovery.holder", "from the death of a holder until the lock is granted again", false, true, nil},
	{"recovery.root", "the same, of the root", false, true, nil},
}

func waiting(f func(*sim.WaitTimes) float64) func(*sim.Report) (float64, bool) {
	return func(r *sim.Report) (float64, bool) {
		return f(&r.Wait.WaitTimes), r.Entries.Total+r.Wait.Unserved > 0
	}
}

// figuresOf are the figures of one run.
func figuresOf(r *sim.Report) Figures {
	all := Figures{}
	for i := range quantities {
		if q := &quantities[i]; q.of != nil {
			if v, known := q.of(r); known {
				all[q.name] = v
			}
		}
	}
	for p, w := range r.Wait.ByPriority {
		all["wait.p50["+p+"]"], all["wait.p99["+p+"]"], all["wait.max["+p+"]"], all["wait.mean["+p+"]"] = w.P50, w.P99, w.Max, w.Mean
	}
	return all
}

// FigureNames lists the figures, without those of one priority.
func FigureNames() []string {
	var names []string
	for i := range quantities {
		names = append(names, quantities[i].name)
	}
	return names
}

// quantityOf finds what the figure of that name is about.
func quantityOf(figure string) (*quantity, error) {
	base, priority, some := strings.Cut(figure, "[")
	i := slices.IndexFunc(quantities, func(q quantity) bool { return q.name == base })
	if i < 0 {
		return nil, fmt.Errorf("%w: no figure is named %q: there are %s", ErrPlan, base, strings.Join(FigureNames(), ", "))
	}
	if some {
		number, closed := strings.CutSuffix(priority, "]")
		if _, err := strconv.ParseInt(number, 10, 64); err != nil || !closed || !strings.HasPrefix(base, "wait.") {
			return nil, fmt.Errorf("%w: %q: only waiting times are known by priority, such as wait.p99[0]", ErrPlan, figure)
		}
	}
	return &quantities[i], nil
}

// IsTime reports whether the figure of that name is a time, in seconds.
func IsTime(figure string) bool {
	q, err := quantityOf(figure)
	return err == nil && q.times
}

// Goal is a figure that should be as good as it can: the least, or of fairness and entries
// the greatest.
type Goal struct {
	Figure string
	most   bool
}

// ParseGoal reads the name of a figure.
func ParseGoal(text string) (Goal, error) {
	name := strings.TrimSpace(text)
	q, err := quantityOf(name)
	switch {
	case err != nil:
		return Goal{}, err
	case q.of == nil:
		return Goal{}, fmt.Errorf("%w: %s is measured of the last few only, so it cannot be a goal: require it, such as '%s < 5s'", ErrPlan, name, name)
	}
	return Goal{name, q.most}, nil
}

// Most reports whether the greatest value is the best.
func (g Goal) Most() bool { return g.most }
