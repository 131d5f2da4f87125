package sim

import (
	"testing"

	"padme/qosmutex/protocol"
)

// busy is a central server with as many clients, running for ever.
func busy(t testing.TB, clients int) *Sim {
	sc := star(0)
	for i := range clients {
		sc.Participants = append(sc.Participants, Participant{ID: treeName(i, 100), Parent: "S"})
	}
	sc.Duration = 1 << 60
	sc.Network = Network{Latency: protocol.Millisecond, Jitter: protocol.Millisecond}
	sc.Workload.Hold, sc.Workload.Think = protocol.Millisecond, 10*protocol.Millisecond
	s := mustNew(t, "", sc)
	if err := s.RunUntil(20 * second); err != nil {
		t.Fatal(err)
	}
	return s
}

// Only the samples grow, and they double.
func TestEventsAllocateNothing(t *testing.T) {
	s := busy(t, 20)
	from := s.Events()
	until := s.Now()
	allocs := testing.AllocsPerRun(10, func() {
		until += second
		if err := s.RunUntil(until); err != nil {
			t.Fatal(err)
		}
	})
	if events := float64(s.Events()-from) / 11; allocs/events > 0.02 {
		t.Errorf("%v allocations for %v events", allocs, events)
	}
}

func BenchmarkEvents(b *testing.B) {
	for _, clients := range []int{6, 100, 1000} {
		b.Run(treeName(clients-1, 100), func(b *testing.B) {
			s := busy(b, clients)
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
		})
	}
}
