package plan

import (
	"cmp"
	"math"
	"slices"

	"padme/qosmutex/sim/stats"
)

// confidence is that of intervals, and of the choice.
const confidence = 0.95

// values are those of a figure in the runs of a sample that measured it.
func values(samples []Figures, figure string) (all []float64) {
	for _, f := range samples {
		if v, known := f[figure]; known {
			all = append(all, v)
		}
	}
	return all
}

// mean is that of a figure; the worst there is if no run measured it.
func mean(samples []Figures, g Goal) float64 {
	all := values(samples, g.Figure)
	switch {
	case len(all) > 0:
		m, _ := stats.MeanDeviation(all)
		return m
	case g.most:
		return math.Inf(-1)
	}
	return math.Inf(1)
}

// difference is how much worse one is than another by a goal, seed by seed.
type difference struct {
	mean, deviation float64
	n               int
	zone            float64 // a difference up to it does not matter
}

// differ compares what two samples measured with the same seeds.
func differ(worse, better []Figures, g Goal, share float64) (d difference) {
	var all, base []float64
	for k := range min(len(worse), len(better)) {
		w, knownW := worse[k][g.Figure]
		b, knownB := better[k][g.Figure]
		if knownW && knownB {
			all, base = append(all, w-b), append(base, b)
		}
	}
	d.n = len(all)
	if d.n == 0 {
		d.mean = mean(worse, g) - mean(better, g) // infinite if only one measured it
		if math.IsNaN(d.mean) {
			d.mean = 0
		}
	} else {
		var m float64
		d.mean, d.deviation = stats.MeanDeviation(all)
		m, _ = stats.MeanDeviation(base)
		d.zone = share * math.Abs(m)
	}
	if g.most {
		d.mean = -d.mean
	}
	return d
}

// half is that of the interval of the mean.
func (d *difference) half() float64 {
	switch {
	case d.n == 0, d.n > 1 && d.deviation == 0:
		return 0
	case d.n == 1:
		return math.Inf(1)
	}
	return stats.StudentQuantile(confidence, d.n-1) * d.deviation / math.Sqrt(float64(d.n))
}

// interval is that of the mean; zero if only one of the two measured anything.
func (d *difference) interval() stats.Interval {
	if half := d.half(); !math.IsInf(half, 0) && !math.IsInf(d.mean, 0) {
		return stats.Interval{Mean: d.mean, Half: half}
	}
	return stats.Interval{}
}

// near reports whether the difference does not matter, as far as is known.
func (d *difference) near() bool { return math.Abs(d.mean) <= d.zone }

// tie reports whether the two are not told apart, or the difference does not matter.
func (d *difference) tie() bool {
	return d.near() || math.Abs(d.mean) <= d.half()
}

// wrong is the probability that the mean really is below -zone: that the one that seems worse
// is better by more than matters.
func (d *difference) wrong() float64 {
	switch {
	case d.n == 0, d.n > 1 && d.deviation == 0:
		return 0
	case d.n == 1:
		return 0.5
	}
	return stats.StudentAbove((d.mean+d.zone)/d.deviation*math.Sqrt(float64(d.n)), d.n-1)
}

// excess is by how much the means of samples miss the limits, each as a share of its limit.
func (s *search) excess(samples []Figures, without string) (sum float64) {
	for i := range s.limits {
		if r := &s.limits[i]; r.text != without {
			by := r.excess(mean(samples, r.goal()))
			if r.limit != 0 {
				by /= math.Abs(r.limit)
			}
			sum += by
		}
	}
	return sum
}

// goal is what the requirement is about.
func (r *Requirement) goal() Goal { return Goal{r.figure, r.above} }

// best is the one to take of several, and those that are not told from it. First count the
// limits, then goal by goal; of equal ones one that survives a crash is taken, and of those the
// first contender.
func (s *search) best(among []*entry, goals []Goal, tie func(*difference) bool) (*entry, []*entry) {
	least := math.Inf(1)
	for _, e := range among {
		least = min(least, s.excess(e.samples, ""))
	}
	among = slices.DeleteFunc(slices.Clone(among), func(e *entry) bool { return s.excess(e.samples, "") > least })
	for _, g := range goals {
		b := slices.MinFunc(among, func(x, y *entry) int { return compareGoal(mean(x.samples, g), mean(y.samples, g), g) })
		among = slices.DeleteFunc(among, func(e *entry) bool {
			d := differ(e.samples, b.samples, g, s.Zone)
			return e != b && !tie(&d)
		})
	}
	slices.SortFunc(among, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(dies(x), dies(y)), cmp.Compare(x.place, y.place))
	})
	return among[0], among[1:]
}

// dies is 1 for an algorithm that does not survive the crash of a member.
func dies(e *entry) int {
	if e.Algorithm.Static {
		return 1
	}
	return 0
}

func compareGoal(x, y float64, g Goal) int {
	switch {
	case x == y:
		return 0
	case (x < y) != g.most:
		return -1
	}
	return 1
}

// rank sorts contenders, the best first, by their means.
func (s *search) rank(all []*entry) (sorted []*entry) {
	left := slices.Clone(all)
	for len(left) > 0 {
		b, _ := s.best(left, s.goals, (*difference).near)
		sorted = append(sorted, b)
		left = slices.DeleteFunc(left, func(e *entry) bool { return e == b })
	}
	return sorted
}
