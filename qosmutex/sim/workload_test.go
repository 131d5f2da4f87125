package sim

import (
	"errors"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// play runs the given requests, with instants counted from the start, at a central
// server with three clients and messages that take no time.
func play(t *testing.T, change func(*Scenario), arrivals ...Arrival) *Result {
	t.Helper()
	sc := star(3)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 100*second
	sc.Arrivals = arrivals
	if change != nil {
		change(&sc)
	}
	r, err := mustNew(t, "", sc).Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wish is a request for the crane.
func wish(at protocol.Time, node string, priority int64, hold protocol.Duration) Arrival {
	return Arrival{at * second, node, Request{Resource: "crane", Priority: priority, Fixed: true, Hold: hold * second}}
}

// Requests at 2, 4, 6 … s need 3 s each: they enter at 2, 5, 8 … s, so the k-th
// waits k s. After 100 s 33 have entered, the last at 98 s.
func TestOpenArrivalsQueueUp(t *testing.T) {
	r := play(t, func(sc *Scenario) {
		sc.Participants[1].Workload = &Workload{Resources: []string{"crane"}, Hold: Constant(3 * second), Every: Constant(2 * second)}
	})
	if r.Entries != 33 || r.Waiting().Quantile(0) != 0 || r.Waiting().Quantile(1) != 32*second || r.Waiting().Mean() != 16*second {
		t.Errorf("%d entries waited %v", r.Entries, r.Waiting())
	}
	if n := r.ByNode[1]; n.Asked != 49 || n.Longest != 32*second || n.Waited != 528*second {
		t.Errorf("got %+v", n)
	}
	// Asked for at 68 s … 98 s and not served.
	if v := r.Starvation; v.Waiting != 16 || v.Longest != 32*second || len(v.Nodes) != 0 {
		t.Errorf("got %+v", v)
	}
	if r.Inside != 98*second || r.Rate() != 0.98 {
		t.Errorf("inside for %s", seconds(r.Inside))
	}
}

func TestPrioritiesAreDrawnPerRequest(t *testing.T) {
	sc := star(4)
	sc.Workload.Priorities = []int64{-3, 12}
	r, err := mustNew(t, "", sc).Run()
	if err != nil {
		t.Fatal(err)
	}
	few, many := r.AtPriority(-3), r.AtPriority(12)
	if len(r.ByPriority) != 2 || few+many != r.Entries || few < 40 || many < 40 {
		t.Errorf("%d and %d of %d entries", few, many, r.Entries)
	}
}

// A machine is told how long the application will stay and until when it must be
// inside.
func TestMachinesHearHoldAndDeadline(t *testing.T) {
	var heard []protocol.Input
	algorithm := centralServer("")
	plain := algorithm.New
	algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
		m, err := plain(c)
		return eavesdropper{m, &heard}, err
	}
	sc := star(1)
	sc.Workload = Workload{}
	sc.Arrivals = []Arrival{
		{0, "A", Request{Resource: "crane", Hold: 4 * second, Within: 9 * second, Priority: 7, Fixed: true}},
		{10 * second, "A", Request{Resource: "crane", Hold: Forever}},
	}
	s, err := New(algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 2 || heard[0].Hold != 4*second || heard[0].Within != 9*second || !heard[0].Fixed || heard[0].Priority != 7 {
		t.Fatalf("got %+v", heard)
	}
	if heard[1].Hold != 0 || heard[1].Within != 0 || heard[1].Fixed {
		t.Errorf("got %+v", heard[1])
	}
}

type eavesdropper struct {
	protocol.Machine
	acquired *[]protocol.Input
}

func (e eavesdropper) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Acquire {
		*e.acquired = append(*e.acquired, *in)
	}
	return e.Machine.Step(now, in, out)
}

// A is inside from 0 to 10 s. B's deadline is 10 s: the instant at which it enters.
// C's is 9 s: it is late, whether it gives up then or not.
func TestDeadlines(t *testing.T) {
	within := func(a Arrival, d protocol.Duration, giveUp bool) Arrival {
		a.Within, a.GiveUp = d*second, giveUp
		return a
	}
	for _, giveUp := range []bool{false, true} {
		r := play(t, nil,
			within(wish(0, "A", 0, 10), 1, giveUp),
			within(wish(1, "B", 0, 10), 9, giveUp),
			within(wish(2, "C", 0, 10), 7, giveUp),
			wish(3, "A", 0, 10), // no deadline
			within(wish(95, "B", 0, 1), 1, giveUp),
			within(wish(96, "C", 0, 1), 50, giveUp),
			within(wish(97, "A", 0, 9), 1, giveUp),
			within(wish(98, "B", 0, 1), 1, giveUp),  // late when the run ends
			within(wish(98, "B", 0, 1), 90, giveUp), // waits still: not decided
		)
		entries := 8
		if giveUp {
			entries--
		}
		d := r.Deadlines
		if d.Met != 5 || d.Missed() != 2 || d.Admitted() != 7 || d.Refused != 0 || r.Entries != entries-1 {
			t.Errorf("giveUp=%v: %+v, %d entries", giveUp, d, r.Entries)
		}
		if again := r.Report(); again.Deadlines != (DeadlinesReport{Admitted: 7, Missed: 2}) {
			t.Errorf("giveUp=%v: %+v", giveUp, again.Deadlines)
		}
	}
}

// What a machine refuses counts by its reason.
func TestRefusedDeadlines(t *testing.T) {
	var d Deadlines
	for _, why := range []protocol.Reason{protocol.ReasonUnattainable, protocol.ReasonUnattainable, protocol.ReasonMissed, protocol.ReasonBusy} {
		d.denied(why, false)
	}
	if d.Refused != 2 || d.Missed() != 1 || d.Admitted() != 1 {
		t.Errorf("got %+v", d)
	}
}

// A workload that gives up goes on: 3 s waiting in vain, 1 s of thought, again and
// again while A stays inside.
func TestAWorkloadThatGivesUpAsksAgain(t *testing.T) {
	r := play(t, func(sc *Scenario) {
		sc.Participants[2].Workload = &Workload{
			Resources: []string{"crane"}, Think: Constant(second), Deadlines: []protocol.Duration{3 * second}, GiveUp: true,
		}
	}, wish(0, "A", 0, 41))
	// B gives up at 3, 7, … 39 s and a trifle; asks at 40 s and enters at 41 s; then
	// once per second.
	if r.Deadlines.Missed() != 10 || r.ByNode[2].Asked != 11+r.ByNode[2].Entries-1 {
		t.Errorf("%+v, %+v", r.Deadlines, r.ByNode[2])
	}
}

// The slots of calls are used again, also if a call is over before its deadline.
func TestCallsAreForgotten(t *testing.T) {
	sc := star(1)
	sc.Workload.Deadlines, sc.Workload.GiveUp = []protocol.Duration{10 * second}, true
	s := mustNew(t, "", sc)
	if r, err := s.Run(); err != nil || r.Entries < 80 {
		t.Fatalf("%d entries, %v", r.Entries, err)
	}
	if len(s.calls) > 4 { // four seconds from one request to the next
		t.Errorf("%d calls are remembered", len(s.calls))
	}
}

// It departs while it is thinking, and asks no more.
func TestADepartedWorkloadEnds(t *testing.T) {
	sc := star(1)
	s := mustNew(t, "", sc)
	s.At(8500*protocol.Millisecond, func() { s.Depart("A") }) // left at 8 s, would ask at 9 s
	r, err := s.Run()
	if err != nil || r.Entries != 1 {
		t.Errorf("%d entries, %v", r.Entries, err)
	}
}

func TestWorkloadsAreChecked(t *testing.T) {
	crane := []string{"crane"}
	for want, w := range map[string]Workload{
		"deadline of 0.000s":          {Resources: crane, Think: Constant(1), Deadlines: []protocol.Duration{0}},
		"gives up, but has no":        {Resources: crane, Think: Constant(1), GiveUp: true},
		"has both Every and Think":    {Resources: crane, Think: Constant(1), Every: Constant(1)},
		"takes no time, so the run":   {Resources: crane, Every: Exponential(0), Hold: Constant(1)},
		"a time must be between 0 an": {Resources: crane, Every: Constant(-1)},
	} {
		sc := star(1)
		sc.Workload = w
		if _, err := New(centralServer(""), sc); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A closed loop begins with a request, at 0, 10 … 90 s, a settled one with a think time: at
// 7, 17 … 87 s.
func TestSettledParticipantsThinkFirst(t *testing.T) {
	for settled, want := range map[bool]int{false: 10, true: 9} {
		r := play(t, func(sc *Scenario) {
			sc.Duration = 95 * second
			sc.Participants[1].Workload = &Workload{Resources: []string{"crane"}, Hold: Constant(3 * second), Think: Constant(7 * second), Settled: settled}
		})
		if r.ByNode[1].Asked != want {
			t.Errorf("settled %v: %d requests, want %d", settled, r.ByNode[1].Asked, want)
		}
	}
}
