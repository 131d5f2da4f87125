package sim

import (
	"errors"
	"testing"

	"padme/qosmutex/protocol"
)

// Messages take 1 s. A leaves at 12 s while B waits, who gives up before the grant
// comes; C, if it waits, enters at 14.5 s. The next to ask does so at 60 s, when
// nobody has waited for long: nothing that the lock did took those 48 s.
func TestNobodyWaitsNobodyIsDelayed(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := play(t, func(sc *Scenario) {
			sc.Network.Latency = Constant(second)
			sc.Arrivals[1].Within, sc.Arrivals[1].GiveUp = 23*second/2, true
			if waits {
				sc.Arrivals = append(sc.Arrivals, wish(2, "C", 0, 1))
			}
		}, wish(0, "A", 0, 10), wish(1, "B", 0, 1), wish(60, "C", 0, 1))
		if got := r.SyncDelay.Count(); (got == 1) != waits || got == 1 && r.SyncDelay.Mean()/protocol.Millisecond != 2500 {
			t.Errorf("C waits, too: %v: %v", waits, &r.SyncDelay)
		}
	}
}

// A request for Any is served elsewhere: it no longer waits for the lift.
func TestWhoeverIsServedElsewhereNoLongerWaits(t *testing.T) {
	s := mustNew(t, "", star(2))
	lift, crane := s.resource("lift"), s.resource("crane")
	slot := s.callSlot()
	s.calls[slot] = call{ref: 1<<slotBits | uint64(slot), node: 1, wanted: s.any, deadline: protocol.Never, hold: Forever}
	s.waits(slot)
	s.left(lift)
	s.left(crane)
	if !lift.owed || !crane.owed {
		t.Fatal("a request for Any waits for both")
	}
	s.granted(1, &protocol.Granted{Ref: s.calls[slot].ref, Resource: "crane", Fence: 1})
	if lift.owed || crane.owed || s.err != nil {
		t.Errorf("the lift is still waited for, or %v", s.err)
	}
}

// Whoever crashes, or is turned away, after the deadline has missed it all the same.
func TestALateRequestThatEndsIsMissed(t *testing.T) {
	for _, late := range []bool{false, true} {
		sc := star(2)
		sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 50*second
		sc.Arrivals = []Arrival{wish(0, "A", 0, 40), wish(1, "B", 0, 1)}
		sc.Arrivals[1].Within = 9 * second
		s := mustNew(t, "", sc)
		at := sc.Start + 10*second // the very deadline
		if late {
			at++
		}
		s.At(at, func() { s.Crash("B") })
		r, err := s.Run()
		if err != nil || (r.Deadlines.Missed() == 1) != late || r.Deadlines.Met != 0 {
			t.Errorf("late: %v: %+v, %v", late, r.Deadlines, err)
		}
	}
	for _, late := range []bool{false, true} {
		for why, want := range map[protocol.Reason]Deadlines{
			protocol.ReasonUnattainable: {Refused: 1}, protocol.ReasonMissed: {missed: 1}, protocol.ReasonClosed: {},
		} {
			if late && why == protocol.ReasonClosed {
				want = Deadlines{missed: 1}
			}
			var got Deadlines
			got.denied(why, late)
			if got != want {
				t.Errorf("%v, late: %v: %+v", why, late, got)
			}
		}
	}
}

// B(7) enters at 10 s while C waits. Whether it overtakes C is a matter of that
// moment, whatever priority C is given at 11 s, before it enters itself.
func TestWhoeverWasOvertakenStaysAVictim(t *testing.T) {
	for _, before := range []int64{1, 9} {
		sc := star(3)
		sc.Network, sc.Workload = Network{}, Workload{}
		own := wish(2, "C", 0, 1)
		own.Fixed = false
		sc.Participants[3].Priority = before
		sc.Arrivals = []Arrival{wish(0, "A", 5, 10), wish(1, "B", 7, 10), own}
		s := mustNew(t, "", sc)
		s.At(sc.Start+11*second, func() { s.SetPriority("C", 10-before) })
		r, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		want := Inversions{}
		if before == 1 {
			want = Inversions{Pending: 1, Known: 1, Overtakers: 1, Victims: 1}
		}
		if r.Inversions != want {
			t.Errorf("C asked with %d: %+v, want %+v", before, r.Inversions, want)
		}
	}
}

// refusing denies everything at once.
type refusing struct{}

func (refusing) Step(_ protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	if in.Kind == protocol.Acquire {
		out.Denials = append(out.Denials, protocol.Denial{Ref: in.Ref, Resource: in.Resource, Reason: protocol.ReasonBusy})
	}
	return nil
}

func (refusing) Status() protocol.Status { return protocol.Status{Role: protocol.Member} }

// A closed loop without Think, refused at once, would ask for ever at one instant.
func TestARefusedLoopWithoutThinkEnds(t *testing.T) {
	sc := star(1)
	sc.Workload.Think = Distribution{}
	s, err := New(protocol.Algorithm{Name: "refusing", New: func(protocol.Config) (protocol.Machine, error) { return refusing{}, nil }}, sc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(); !errors.Is(err, ErrScenario) {
		t.Errorf("got %v", err)
	}
}

// farsighted wants to be woken at an instant that its clock hardly reaches.
type farsighted struct{ refusing }

func (farsighted) Step(_ protocol.Time, _ *protocol.Input, out *protocol.Output) error {
	out.Reset()
	out.WakeAt = protocol.Never - 1
	return nil
}

func TestAWakeUpBeyondAllTimeNeverComes(t *testing.T) {
	for _, drift := range []int64{-200_000, 0, 200_000} {
		for _, offset := range []protocol.Duration{-second, 0, second} {
			sc := star(1)
			sc.Workload = Workload{}
			sc.Participants[1].ClockDrift, sc.Participants[1].ClockOffset = drift, offset
			s, err := New(protocol.Algorithm{Name: "farsighted", New: func(protocol.Config) (protocol.Machine, error) { return farsighted{}, nil }}, sc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(); err != nil || s.Events() > 5 {
				t.Errorf("drift %d, offset %s: %d events, %v", drift, seconds(offset), s.Events(), err)
			}
		}
	}
}
