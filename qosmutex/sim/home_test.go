package sim

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestWhoIsStartedAgainAsksWhenItHasAPlace: neither its workload nor a recorded request
// comes before.
func TestWhoIsStartedAgainAsksWhenItHasAPlace(t *testing.T) {
	sc := candidates(3)
	sc.Network.Latency = Constant(100 * protocol.Millisecond)
	sc.Workload = Workload{Resources: []string{"crane"}, Hold: Constant(protocol.Millisecond), Think: Constant(protocol.Millisecond)}
	sc.Arrivals = []Arrival{{At: 60*second + 5*protocol.Millisecond, Node: "C", Request: Request{Resource: "crane", Hold: protocol.Millisecond}}}
	again, asked, early := false, 0, 0
	var s *Sim
	sc.Trace = func(r *Record) {
		if again && r.Event == Requested && r.Node == "C" {
			if asked++; s.Status("C").Role != protocol.Member {
				early++
			}
		}
	}
	s = topic(t, sc)
	s.At(sc.Start+30*second, func() { s.Crash("C") })
	s.At(sc.Start+60*second, func() { s.Restart("C"); again = true })
	if err := s.RunUntil(sc.Start + 90*second); err != nil {
		t.Fatal(err)
	}
	if asked < 3 || early > 0 {
		t.Errorf("of %d requests %d came before there was a place", asked, early)
	}
}
