package papers

import (
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// TestFairAfterLevel switches the papers' tree from Level to Fair. Under Level the
// leaves never enter and the clocks of the others run ahead of theirs. From the switch
// on everybody must get a turn: three minutes are enough for five to seven entries each.
func TestFairAfterLevel(t *testing.T) {
	const after = 180 * protocol.Second
	for _, before := range []protocol.Duration{60 * protocol.Second, 180 * protocol.Second, 1000 * protocol.Second} {
		for _, request := range []protocol.RequestModel{protocol.RequestForward, protocol.RequestReplace} {
			level := protocol.Models{Priority: protocol.Level, Request: request}
			fair := protocol.Models{Priority: protocol.Fair, Request: request}
			sc := sim.PaperScenario(level, protocol.Second)
			sc.Duration = before + after
			switchAt := sc.Start + before
			entries := map[string]int{}
			sc.Trace = func(r *sim.Record) {
				if r.Event == sim.Entered && r.At >= switchAt {
					entries[r.Node]++
				}
			}
			s, err := sim.New(padme.Algorithm, sc)
			if err != nil {
				t.Fatal(err)
			}
			s.At(switchAt, func() { s.SetModels(sc.Participants[0].ID, fair) })
			if _, err := s.Run(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%v after %d s of Level: %v", fair, before/protocol.Second, entries)
			for _, p := range sc.Participants {
				if n := entries[p.ID]; n < 5 || n > 7 {
					t.Errorf("%v after %d s of Level: %s entered %d times in 180 s, want 5 to 7", fair, before/protocol.Second, p.ID, n)
				}
			}
		}
	}
}
