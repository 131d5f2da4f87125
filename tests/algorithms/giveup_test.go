package algorithms_test

import (
	"testing"

	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// An application and its machine may notice at the same instant that a deadline has
// passed. That is no fault of either.
func TestGivingUpCrossesTheMachinesOwnWord(t *testing.T) {
	for _, a := range papers.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			sc := sim.PaperScenario(protocol.Models{Priority: protocol.Fair}, 700*protocol.Millisecond)
			sc.Workload.Deadlines = []protocol.Duration{2500 * protocol.Millisecond}
			sc.Workload.GiveUp = true
			sc.AllowOverlap = a.Name == "voting-forgetful"
			s, err := sim.New(a, sc)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			if d := r.Deadlines; d.Missed()+d.Refused == 0 {
				t.Errorf("nobody was late or refused: %+v", d)
			}
		})
	}
}
