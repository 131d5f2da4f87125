package realrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/tests/extent"
)

// participateName is what the test binary is called when it is to be a participant.
const participateName = "realrun-participant"

func TestMain(m *testing.M) {
	if os.Args[0] == participateName {
		if err := Participate(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func command(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, participateName}
}

// scenario has three participants of whom the last two ask.
func scenario() sim.Scenario {
	const ms = protocol.Millisecond
	return sim.Scenario{
		Seed: 1, Timing: protocol.LAN().WithTTL(500 * ms), Fanout: 8, Start: 500 * ms, Duration: 1500 * ms,
		Settings: protocol.Settings{Resources: []string{"crane"}},
		Network:  sim.Network{Latency: sim.Uniform(2*ms, 6*ms)},
		Participants: []sim.Participant{
			{ID: "a", Candidate: true, Creates: true, Workload: &sim.Workload{}},
			{ID: "b/1", Priority: 1, Candidate: true, Joins: 20 * ms},
			{ID: "c", Priority: 2, Candidate: true, Joins: 40 * ms, Workload: &sim.Workload{
				Resources: []string{"crane"}, Hold: sim.Constant(10 * ms), Every: sim.Constant(100 * ms), Priorities: []int64{7},
			}},
		},
		Workload: sim.Workload{Resources: []string{"crane"}, Hold: sim.Constant(20 * ms), Think: sim.Constant(30 * ms), Settled: true},
	}
}

// Whatever the load of the machine: nobody enters before they have asked, not before a message
// could go to the root and back, and requests by the clock are there whatever became of others.
func TestRealRun(t *testing.T) {
	extent.NotShort(t, "real processes")
	for name, algorithm := range map[string]protocol.Algorithm{"padme": padme.Algorithm, "central": classic.Central} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			sc := scenario()
			r, err := Start(ctx, algorithm, sc, 8, command(t), os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.Execute(ctx)
			if err != nil {
				t.Fatal(errors.Join(err, r.Close()))
			}
			if m.Lost > 0 || len(m.Delays) == 0 {
				t.Errorf("%d lost, %d delays", m.Lost, len(m.Delays))
			}
			for _, d := range m.Delays {
				if d.Took < 0 || d.At < 0 || d.At > sc.Duration+protocol.Second {
					t.Errorf("%+v", d)
				}
			}
			checkOutcomes(t, m.Outcomes, sc.Duration)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			for _, p := range r.processes {
				if p.command.ProcessState == nil || !p.command.ProcessState.Success() {
					t.Errorf("the process of %s has ended with %v", p.id, p.command.ProcessState)
				}
			}
		})
	}
}

func checkOutcomes(t *testing.T, all []plan.Outcome, lasted protocol.Duration) {
	t.Helper()
	asked, entered := map[int64]int{}, map[int64]int{}
	for _, o := range all {
		asked[o.Priority]++
		if o.Asked < 0 || o.Asked > lasted+protocol.Second || o.At < o.Asked {
			t.Errorf("%+v", o)
		}
		if o.End == plan.Entered {
			entered[o.Priority]++
			if least := 2 * 2 * protocol.Millisecond; o.At-o.Asked < least {
				t.Errorf("it entered sooner than two messages could take: %+v", o)
			}
		}
	}
	if asked[1] == 0 || asked[7] < 10 || asked[7] > 14 || asked[0] > 0 || entered[1] == 0 || entered[7] == 0 {
		t.Errorf("asked %v, entered %v", asked, entered)
	}
}

// What a process cannot do is told with its name, and an interruption ends the run.
func TestRealRunThatFails(t *testing.T) {
	extent.NotShort(t, "real processes")
	sc := scenario()
	sc.Settings.Resources = nil
	r, err := Start(t.Context(), padme.Algorithm, sc, 0, command(t), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Execute(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "a: ") {
		t.Errorf("a fan-out of 0: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	sc.Settings.Resources, sc.Duration = []string{"crane"}, 600*protocol.Second
	if r, err = Start(t.Context(), padme.Algorithm, sc, 8, command(t), os.Stderr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	time.AfterFunc(200*time.Millisecond, func() { cancel(stop) })
	if _, err := r.Execute(ctx); !errors.Is(err, stop) {
		t.Errorf("an interruption: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Start(t.Context(), padme.Algorithm, sc, 8, []string{"/nowhere", "participant"}, os.Stderr); err == nil {
		t.Error("a program that is not there runs")
	}
}

// A schedule has what the simulator draws: a closed loop until one request is too late even
// if nobody waits, and all arrivals of the clock.
func TestSchedule(t *testing.T) {
	sc := scenario()
	sc.Arrivals = []sim.Arrival{{At: 5, Node: "a", Request: sim.Request{Resource: "crane", Hold: 3}}, {At: sc.Duration, Node: "a"}}
	if loop, clock := schedule(&sc, 0); loop != nil || len(clock) != 1 || clock[0].After != 5 || clock[0].Hold != 3 {
		t.Errorf("%v %v", loop, clock)
	}
	loop, clock := schedule(&sc, 1)
	if len(loop) != 31 || clock != nil || loop[0].After != 30*time.Millisecond || loop[1].Priority != 1 || loop[1].Fixed {
		t.Errorf("%d in the loop, %v, %+v", len(loop), clock, loop[0])
	}
	sc.Workload.Deadlines = []protocol.Duration{protocol.Second}
	if loop, _ = schedule(&sc, 1); len(loop) != 50 || loop[3].Within != time.Second {
		t.Errorf("%d in the loop if all may be refused at once", len(loop))
	}
	loop, clock = schedule(&sc, 2)
	if loop != nil || len(clock) != 14 || clock[1].After != 200*time.Millisecond || clock[1].Priority != 7 || !clock[1].Fixed {
		t.Errorf("%v, %d by the clock", loop, len(clock))
	}
}

// Each receiver has its latencies, one if they are all alike, none if there is none.
func TestDelays(t *testing.T) {
	sc := scenario()
	all := delaysOf(&sc, 0)
	if len(all) != 2 || len(all["c"]) != drawn || slices.Min(all["c"]) < 2*time.Millisecond || slices.Max(all["c"]) > 6*time.Millisecond {
		t.Errorf("%v", all)
	}
	sc.Network.Latency = sim.Matrix{Each: [][]protocol.Duration{{0, 0, 9}, {9, 0, 9}, {9, 9, 0}}}
	if all := delaysOf(&sc, 0); len(all) != 1 || !slices.Equal(all["c"], []time.Duration{9}) || flatOf(all) != 9 || flatOf(nil) != 0 {
		t.Errorf("%v", all)
	}
}
