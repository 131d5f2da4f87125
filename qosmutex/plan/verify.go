package plan

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Verification compares a real run with simulated ones of the same length.
type Verification struct {
	Rows   []Row `json:"rows"`
	Inside int   `json:"inside"` // of Rows
	Runs   int   `json:"runs"`   // simulated
	// AsFar is the share of these runs, and the real one, of which some figure is as far from
	// the middle of its kind as that of the real run that is the farthest out. It takes into
	// account that one of many figures is far out more often than a given one, and that the
	// figures of a run depend on each other.
	AsFar float64 `json:"asFar"`
	Fits  bool    `json:"fits"` // AsFar is not below 5 %
}

// Row is one figure of a Verification. Times are in seconds.
type Row struct {
	Figure   string   `json:"figure"`
	Low      float64  `json:"low"` // with High: a further simulated run is between them with 95 %
	Median   float64  `json:"median"`
	High     float64  `json:"high"`
	Same     *float64 `json:"same,omitempty"` // simulated with the requests of the real run
	Measured float64  `json:"measured"`
	Inside   bool     `json:"inside"`

	sorted []float64 // of the simulated runs
}

// Verify compares what a run measured with what Predict predicted; same is the simulation
// with the same requests. Figures that the run or too few of the simulated ones have are left
// out.
func Verify(predicted []Figures, same, measured Figures) *Verification {
	v := &Verification{Runs: len(predicted)}
	for _, name := range verified(predicted, measured) {
		all := slices.Sorted(slices.Values(values(predicted, name)))
		low, median, high, enough := middle(all)
		if !enough {
			continue
		}
		r := Row{Figure: name, Low: low, Median: median, High: high, Measured: measured[name], sorted: all}
		if x, known := same[name]; known {
			r.Same = &x
		}
		if r.Inside = r.holds(r.Measured); r.Inside {
			v.Inside++
		}
		v.Rows = append(v.Rows, r)
	}
	real, far := v.rarest(measured, 1), 1
	for _, f := range predicted {
		if v.rarest(f, 0) <= real {
			far++
		}
	}
	v.AsFar = float64(far) / float64(len(predicted)+1)
	v.Fits = v.AsFar >= 1-confidence
	return v
}

// slack is a share by which a figure may differ from itself after it was computed otherwise.
const slack = 1e-9

func (r *Row) holds(v float64) bool {
	return v+slack*math.Abs(v) >= r.Low && v-slack*math.Abs(v) <= r.High
}

// rarest is how many simulated runs have a figure that is as far out, on its side, as that of
// this run of which that is the fewest; plus one if this run is none of them.
func (v *Verification) rarest(f Figures, plus int) int {
	fewest := v.Runs + 1
	for i := range v.Rows {
		x, known := f[v.Rows[i].Figure]
		if !known {
			continue
		}
		all, by := v.Rows[i].sorted, slack*math.Abs(x)
		above := len(all) - sort.SearchFloat64s(all, x-by)
		below := sort.Search(len(all), func(k int) bool { return all[k] > x+by })
		fewest = min(fewest, above+plus, below+plus)
	}
	return fewest
}

// middle is where a further value is with 95 %, whatever the distribution: of n values that are
// drawn alike, it is below the k-th with a probability of k/(n+1).
func middle(all []float64) (low, median, high float64, enough bool) {
	n := len(all)
	k := int(math.Round(float64(n+1)*(1-confidence)/2*1e6) / 1e6) // rounded down, but for what float64 cannot tell
	if k < 1 {
		return 0, 0, 0, false
	}
	return all[k-1], all[(n-1)/2], all[n-k], true
}

// verified are the figures to compare: waiting, of each priority if there are several,
// entries, and deadlines if there are any.
func verified(predicted []Figures, measured Figures) (names []string) {
	known := map[string]bool{}
	for _, f := range append(slices.Clone(predicted), measured) {
		for name, x := range f {
			known[name] = known[name] || strings.HasPrefix(name, "wait.") || x != 0
		}
	}
	classes := classesOf(known)
	if len(classes) < 2 {
		classes = []string{""}
	}
	for _, name := range []string{"wait.p50", "wait.p99"} {
		for _, class := range classes {
			if _, there := measured[name+class]; there {
				names = append(names, name+class)
			}
		}
	}
	for _, name := range []string{"entries", "missed", "refused"} {
		if known[name] {
			names = append(names, name)
		}
	}
	return names
}

// classesOf are the priorities of figures, such as "[1]", in their order.
func classesOf(names map[string]bool) (classes []string) {
	var all []int64
	for name := range names {
		var p int64
		if n, _ := fmt.Sscanf(name, "wait.p99[%d]", &p); n == 1 {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	for _, p := range all {
		classes = append(classes, fmt.Sprintf("[%d]", p))
	}
	return classes
}
