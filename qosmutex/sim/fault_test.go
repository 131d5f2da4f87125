package sim

import (
	"errors"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// Each machine hears whom its transport suspects, and in which incarnation; one that
// knows no suspicions may refuse the input.
func TestASuspicionReachesTheMachine(t *testing.T) {
	var heard []protocol.Node
	algorithm := centralServer("")
	plain := algorithm.New
	algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
		m, err := plain(c)
		return suspicious{m, c.Self.ID, &heard}, err
	}
	sc := star(2)
	sc.Workload = Workload{}
	var b strings.Builder
	sc.Trace = TraceTo(&b, nil)
	s, err := New(algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	s.At(5*second, func() {
		was := s.Node("A")
		s.Crash("A")
		s.Restart("A")
		s.Suspect(was, "B")
		s.Suspect(s.Node("A"), "B")
		s.Suspect(was, "S") // refuses
	})
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 2 || heard[0] != (protocol.Node{ID: "A", Incarnation: 1}) || heard[1] != (protocol.Node{ID: "A", Incarnation: 2}) {
		t.Errorf("B heard of %v", heard)
	}
	if !strings.Contains(b.String(), "5.000s B suspects A: incarnation 1\n5.000s B suspects A: incarnation 2\n") {
		t.Errorf("got\n%s", b.String())
	}
}

type suspicious struct {
	protocol.Machine
	id    string
	heard *[]protocol.Node
}

func (m suspicious) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind != protocol.Suspect {
		return m.Machine.Step(now, in, out)
	}
	out.Reset()
	out.WakeAt = protocol.Never
	if m.id == "S" {
		return errors.New("no such input")
	}
	*m.heard = append(*m.heard, in.Node)
	return nil
}

// riser notes the time of each of its steps and wants to be woken every second of
// its own clock.
type riser struct{ steps *[]protocol.Time }

func (m riser) Step(now protocol.Time, _ *protocol.Input, out *protocol.Output) error {
	out.Reset()
	*m.steps = append(*m.steps, now)
	out.WakeAt = now - now%second + second
	return nil
}

func (m riser) Status() protocol.Status { return protocol.Status{Role: protocol.Root} }

// A clock that is set to another speed does not jump, and a machine is woken by the
// clock as it runs now.
func TestAClockDriftsFromNowOn(t *testing.T) {
	var steps []protocol.Time
	algorithm := protocol.Algorithm{Name: "riser", New: func(protocol.Config) (protocol.Machine, error) { return riser{&steps}, nil }}
	s, err := New(algorithm, Scenario{Participants: []Participant{{ID: "A"}}, Timing: protocol.LAN(), Duration: 100 * second})
	if err != nil {
		t.Fatal(err)
	}
	const half = second / 2
	s.At(10*second+half, func() { s.SetDrift("A", 200_000) })
	s.At(20*second+half, func() {
		if local := s.nodes[0].local(s.Now()); local != 22*second+half {
			t.Errorf("after ten seconds at 1.2 the clock shows %s", seconds(local))
		}
		s.SetDrift("A", -200_000)
	})
	if err := s.RunUntil(30*second + half); err != nil {
		t.Fatal(err)
	}
	if local := s.nodes[0].local(s.Now()); local != 30*second+half {
		t.Errorf("after ten seconds at 0.8 the clock shows %s", seconds(local))
	}
	for i := 1; i < len(steps); i++ {
		if d := steps[i] - steps[i-1]; d < 0 || d > second {
			t.Errorf("step %d comes %s after the one before by its own clock", i, seconds(d))
		}
	}
	if len(steps) != 33 { // 0 s … 30 s, and one at each change
		t.Errorf("%d steps", len(steps))
	}
	s.SetDrift("A", 300_000)
	if err := s.RunUntil(31 * second); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "cannot drift by 300000") {
		t.Errorf("got %v", err)
	}
}

func TestAPausedMachineIsNotWokenByItsNewDrift(t *testing.T) {
	var steps []protocol.Time
	algorithm := protocol.Algorithm{Name: "riser", New: func(protocol.Config) (protocol.Machine, error) { return riser{&steps}, nil }}
	s, err := New(algorithm, Scenario{Participants: []Participant{{ID: "A"}}, Timing: protocol.LAN(), Duration: 100 * second})
	if err != nil {
		t.Fatal(err)
	}
	s.At(5*second, func() { s.Pause("A"); s.SetDrift("A", 1000) })
	if err := s.RunUntil(9 * second); err != nil || len(steps) != 5 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// Who departed, ended and came back asks again.
func TestAParticipantComesBackWithItsWorkload(t *testing.T) {
	sc := star(1)
	s := mustNew(t, "", sc)
	s.At(8500*protocol.Millisecond, func() { s.Depart("A") })
	s.At(60*second, func() { s.Crash("A"); s.Restart("A") })
	r, err := s.Run()
	if err != nil || r.Entries < 70 || r.Entries > 78 {
		t.Errorf("%d entries in 305 s at one in 4 s, %v", r.Entries, err)
	}
}

// A workload that is taken away ends with the requests that wait, and one that is
// given back makes one loop of requests and not two.
func TestAWorkloadIsChanged(t *testing.T) {
	sc := star(2)
	load := sc.Workload
	s := mustNew(t, "", sc)
	s.At(20*second+1, func() {
		if len(s.Waiting()) == 0 {
			t.Error("nobody waits")
		}
		planned := s.nodes[1].asks + s.nodes[2].asks
		if s.SetWorkload(load); s.nodes[1].asks+s.nodes[2].asks != planned {
			t.Error("who waits for a request is to make another")
		}
		s.SetWorkload(Workload{})
	})
	s.At(40*second, func() {
		if w := s.Waiting(); len(w) != 0 || s.Result().Entries == 0 {
			t.Errorf("still waiting: %v", w)
		}
		s.SetWorkload(load)
		s.SetWorkload(load)
		if s.nodes[1].asks != 1 || s.nodes[2].asks != 1 || s.nodes[0].asks != 0 {
			t.Errorf("%d, %d and %d requests are planned, want 0, 1 and 1", s.nodes[0].asks, s.nodes[1].asks, s.nodes[2].asks)
		}
	})
	before := 0
	s.At(39*second, func() { before = s.Result().Entries })
	r, err := s.Run()
	if err != nil || r.Entries-before < 100 {
		t.Errorf("%d entries after %d, %v", r.Entries, before, err)
	}
	s = mustNew(t, "", sc)
	s.SetWorkload(Workload{Resources: []string{"crane"}})
	if err := s.RunUntil(second); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "the new workload takes no time") {
		t.Errorf("got %v", err)
	}
}

func TestWhoWaitsIsListed(t *testing.T) {
	sc := star(2)
	sc.Workload = Workload{}
	s := mustNew(t, "", sc)
	s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: 100 * second}) })
	s.At(8*second, func() { s.Request("B", Request{Resource: "crane"}) })
	if err := s.RunUntil(20 * second); err != nil {
		t.Fatal(err)
	}
	if w := s.Waiting(); len(w) != 1 || w[0] != (Waiting{"B", "crane", 1, 8 * second}) {
		t.Errorf("got %v", w)
	}
}
