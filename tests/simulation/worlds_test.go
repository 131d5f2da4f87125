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
		o.handovers = false
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

// Why a topic has to be started again.
func TestCausesOfARestart(t *testing.T) {
	crash := func(r *run, m *member) { r.crash(m) }
	forGood := func(r *run, m *member) { r.crash(m); m.forGood = true }
	back := func(r *run, m *member) { r.crash(m); r.restart(m) }
	for want, ended := range map[cause][]func(*run, *member){
		majorityGone:  {forGood, forGood},
		majorityEnded: {back, crash},
		noVoters:      {back, back, back, back, back},
	} {
		o := draw(1, worldNamed("faults"))
		o.size, o.adaptive, o.maxVoters, o.late, o.handovers, o.founders = 5, true, 3, 0, false, 0
		r := newRun(o, nil)
		if err := r.until(o.settled()); err != nil {
			t.Fatal(err)
		}
		voters := r.newestVoters()
		if len(voters) != 3 {
			t.Fatalf("the voters are %v", voters)
		}
		slices.SortStableFunc(r.members, func(a, b *member) int { // voters first
			return strings.Compare(order(voters, a), order(voters, b))
		})
		for i, end := range ended {
			end(r, r.members[i])
		}
		if got := r.whyNotElectable(); r.electable() || got != want {
			t.Errorf("electable %v, as %s; want %s", r.electable(), got, want)
		}
	}
}

func order(voters []protocol.Node, m *member) string {
	return fmt.Sprint(!slices.ContainsFunc(voters, func(v protocol.Node) bool { return v.ID == m.id }), m.id)
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
	for _, want := range []string{"not one late messages", "not one crash of a leaf", "no visits", "no lapses", "none in the world crowd", "no seeds with deadlines"} {
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("%q is missing in %q", want, all)
		}
	}
	if !slices.Contains(calm, "0 seeds and no visits") || slices.ContainsFunc(calm, func(s string) bool { return strings.Contains(s, "crash") || strings.Contains(s, "lapses") }) {
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
