package sim

import (
	"fmt"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// busy is a central server with as many clients, running for ever.
func busy(t testing.TB, clients int, fast bool) *Sim {
	sc := star(0)
	for i := range clients {
		sc.Participants = append(sc.Participants, Participant{ID: treeName(i, 100), Parent: "S"})
	}
	sc.Duration = longest
	sc.Fast = fast
	sc.Network = Network{Latency: Uniform(protocol.Millisecond, 2*protocol.Millisecond)}
	sc.Workload.Hold, sc.Workload.Think = Constant(protocol.Millisecond), Constant(10*protocol.Millisecond)
	s := mustNew(t, "", sc)
	if err := s.RunUntil(20 * second); err != nil {
		t.Fatal(err)
	}
	return s
}

// busyPADME is the paper's experiment with a tree of n, running for ever.
func busyPADME(t testing.TB, n int, fast bool) *Sim {
	m, err := protocol.ParseModels("fair-forward-use-use")
	if err != nil {
		t.Fatal(err)
	}
	sc := PaperScenario(m, second)
	sc.Participants = Tree(n, 2, false)
	sc.Duration = longest
	sc.Fast = fast
	s, err := New(padme.Algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(sc.Start + 1000*second); err != nil {
		t.Fatal(err)
	}
	return s
}

// In steady state nothing is allocated: samples become buckets, everything else is
// used again.
func TestEventsAllocateNothing(t *testing.T) {
	for _, fast := range []bool{false, true} {
		s := busy(t, 20, fast)
		from, until := s.Events(), s.Now()
		allocs := testing.AllocsPerRun(10, func() {
			until += second
			if err := s.RunUntil(until); err != nil {
				t.Fatal(err)
			}
		})
		if events := float64(s.Events()-from) / 11; allocs/events > 0.02 {
			t.Errorf("fast=%v: %v allocations for %v events", fast, allocs, events)
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	for _, fast := range []bool{false, true} {
		how := map[bool]string{false: "encoded", true: "fast"}[fast]
		for _, n := range []int{6, 100, 1000} {
			b.Run(fmt.Sprintf("central/%d/%s", n, how), func(b *testing.B) { runEvents(b, busy(b, n, fast)) })
		}
		for _, n := range []int{7, 127} {
			b.Run(fmt.Sprintf("padme/%d/%s", n, how), func(b *testing.B) { runEvents(b, busyPADME(b, n, fast)) })
		}
	}
}

func runEvents(b *testing.B, s *Sim) {
	b.ReportAllocs()
	b.ResetTimer()
	from := s.Events()
	for s.Events() < from+uint64(b.N) {
		s.next()
	}
	if s.err != nil {
		b.Fatal(s.err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
