package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// A topic that stands still while members wait is an error, in the worlds where
// nothing breaks and in those where somebody is killed.
func TestAGapBeyondTheBoundIsSeen(t *testing.T) {
	for _, name := range []string{"ordinary", "kills"} {
		o := draw(1, worldNamed(name))
		o.handovers, o.candidates = false, 0
		r := newRun(o, nil)
		r.sim.At(o.settled()+protocol.Second, func() {
			m := r.pick(root)
			r.sim.Cut(m.id)
			m.busy = true
		})
		_, err := r.all()
		if err == nil || !strings.Contains(err.Error(), "nobody holds it for") {
			t.Errorf("%s: the root is cut off for ever, and the run ends with %v", name, err)
		}
	}
}

// complaints is a tester that keeps what it is told.
type complaints []string

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// What a run of seeds never did is an error; a single world is asked for its own only.
func TestWhatNeverHappensIsAnError(t *testing.T) {
	var all, calm complaints
	newSum().check(&all, nil)
	newSum().check(&calm, worldNamed("ordinary"))
	for _, want := range []string{"not one late messages", "not one crash of a leaf", "no visits", "no terms", "none in the world crowd", "no seeds with deadlines"} {
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("%q is missing in %q", want, all)
		}
	}
	if !slices.Contains(calm, "0 seeds and no visits") || slices.ContainsFunc(calm, func(s string) bool { return strings.Contains(s, "crash") || strings.Contains(s, "terms") }) {
		t.Errorf("of one world: %q", calm)
	}
}

// Each world is drawn about as often as its share says, and by a seed for ever.
func TestWorldsOfSeeds(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(1600) {
		drawn[drawWorld(seed).name]++
	}
	for i := range worlds {
		if w := &worlds[i]; drawn[w.name] < 80*w.share || drawn[w.name] > 120*w.share+30 {
			t.Errorf("%s: %d of 1600 seeds with a share of %d in 16", w.name, drawn[w.name], w.share)
		}
	}
	if got := drawWorld(1).name; got != "faults" {
		t.Errorf("seed 1 draws %s", got)
	}
}
