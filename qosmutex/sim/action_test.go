package sim

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// manual is a star of two clients that do only what the test says; it returns the
// lines of the trace that matter.
func manual(t *testing.T, change func(*Scenario), script func(*Sim)) ([]string, *Result, error) {
	t.Helper()
	sc := star(2)
	sc.Workload = Workload{}
	var b bytes.Buffer
	sc.Trace = TraceTo(&b, nil)
	if change != nil {
		change(&sc)
	}
	s := mustNew(t, "", sc)
	script(s)
	r, err := s.Run()
	return strings.Split(strings.TrimSpace(b.String()), "\n"), r, err
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestACrashEndsTheHoldAndWhatIsOnItsWay(t *testing.T) {
	got, r, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: 2 * second}) })
		s.At(7500*protocol.Millisecond, func() { s.Request("A", Request{Resource: "lift", Hold: second}) })
		s.At(8*second, func() { s.Crash("A") })
		s.At(9*second, func() { s.Restart("A") })
		s.At(10*second, func() { s.Request("A", Request{Resource: "tug", Hold: second}) })
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, got,
		"5.000s A requests crane p0",
		"5.000s A→S Request ⟨A,p0,c1⟩ crane",
		"6.000s S←A Request ⟨A,p0,c1⟩ crane",
		"6.000s S→A Reply ⟨A,c1⟩ crane fence 1",
		"7.000s A←S Reply ⟨A,c1⟩ crane fence 1",
		"7.000s A enters crane by Reply ⟨A,c1⟩ fence 1",
		"7.500s A requests lift p0",
		"7.500s A→S Request ⟨A,p0,c2⟩ lift",
		"8.000s A crashes",
		"8.500s S←A Request ⟨A,p0,c2⟩ lift", // had left before
		"8.500s S→A Reply ⟨A,c2⟩ lift fence 1",
		"9.000s A restarts",
		"9.500s A←S Reply ⟨A,c2⟩ lift fence 1", // for the incarnation before
		"9.500s A rejects Reply from S: central: input that fits nothing: message to another incarnation",
		"10.000s A requests tug p0",
		"10.000s A→S Request ⟨A,p0,c3⟩ tug",
		"11.000s S←A Request ⟨A,p0,c3⟩ tug",
		"11.000s S→A Reply ⟨A,c3⟩ tug fence 1",
		"12.000s A←S Reply ⟨A,c3⟩ tug fence 1",
		"12.000s A enters tug by Reply ⟨A,c3⟩ fence 1",
		"13.000s A leaves tug ⟨A,c3⟩ fence 1",
		"13.000s A→S Release ⟨A,c3; A,c3⟩ tug fence 1",
		"14.000s S←A Release ⟨A,c3; A,c3⟩ tug fence 1",
	)
	if r.Entries != 2 || r.Rejected != 1 {
		t.Errorf("%d entries, %d rejected", r.Entries, r.Rejected)
	}
}

func TestWhatReachesACrashedParticipantIsLost(t *testing.T) {
	got, r, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: second}) })
		s.At(6500*protocol.Millisecond, func() { s.Crash("A") })
		s.At(6600*protocol.Millisecond, func() { s.Restart("A") }) // the connection is another one
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := got[len(got)-1]; last != "7.000s S→A Reply ⟨A,c1⟩ crane fence 1 lost" {
		t.Errorf("got %q", last)
	}
	if r.LostMessages != 1 || r.Entries != 0 {
		t.Errorf("%d lost, %d entries", r.LostMessages, r.Entries)
	}
}

// A paused process hears nothing and does nothing; its clock runs on. What came
// is there, in order, when it goes on.
func TestAPausedParticipantCatchesUp(t *testing.T) {
	var seen []protocol.Time
	got, _, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: second}) })
		s.At(5500*protocol.Millisecond, func() { s.Pause("A") })
		s.At(6*second, func() { seen = append(seen, s.Now()) })
		s.At(20*second, func() { s.Resume("A") })
		s.At(20500*protocol.Millisecond, func() { s.Pause("A") })
		s.At(25*second, func() { s.Resume("A") })
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0] != 6*second {
		t.Errorf("the action ran at %v", seen)
	}
	wantLines(t, got[2:],
		"5.500s A pauses",
		"6.000s S←A Request ⟨A,p0,c1⟩ crane",
		"6.000s S→A Reply ⟨A,c1⟩ crane fence 1",
		"20.000s A resumes",
		"20.000s A←S Reply ⟨A,c1⟩ crane fence 1",
		"20.000s A enters crane by Reply ⟨A,c1⟩ fence 1",
		"20.500s A pauses",
		"25.000s A resumes",
		"25.000s A leaves crane ⟨A,c1⟩ fence 1",
		"25.000s A→S Release ⟨A,c1; A,c1⟩ crane fence 1",
		"26.000s S←A Release ⟨A,c1; A,c1⟩ crane fence 1",
	)
}

func TestACrashWhilePausedFreesWhatCame(t *testing.T) {
	var s2 *Sim
	_, r, err := manual(t, nil, func(s *Sim) {
		s2 = s
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: second}) })
		s.At(5500*protocol.Millisecond, func() { s.Pause("A") })
		s.At(9*second, func() { s.Crash("A") })
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.LostMessages != 1 || len(s2.freePackets) != len(s2.packets) || len(s2.freeCalls) != len(s2.calls) || s2.counted != 0 {
		t.Errorf("%d lost; packets %d of %d free, calls %d of %d, %d counted", r.LostMessages,
			len(s2.freePackets), len(s2.packets), len(s2.freeCalls), len(s2.calls), s2.counted)
	}
}

func TestACutLosesBothWays(t *testing.T) {
	got, r, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: second}) })
		s.At(6500*protocol.Millisecond, func() { s.Cut("A") }) // the Reply is on its way
		s.At(6600*protocol.Millisecond, func() { s.Request("A", Request{Resource: "lift", Hold: second}) })
		s.At(6700*protocol.Millisecond, func() { s.Reconnect("A") })
		s.At(8*second, func() { s.Request("A", Request{Resource: "tug", Hold: second}) })
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, got[4:10],
		"6.500s A is cut off",
		"6.600s A requests lift p0",
		"6.600s A→S Request ⟨A,p0,c2⟩ lift",
		"6.600s A→S Request ⟨A,p0,c2⟩ lift lost",
		"6.700s A reconnects",
		"7.000s S→A Reply ⟨A,c1⟩ crane fence 1 lost",
	)
	if r.LostMessages != 2 || r.Entries != 1 {
		t.Errorf("%d lost, %d entries", r.LostMessages, r.Entries)
	}
}

func TestAMachineHearsThatItIsConnectedAgain(t *testing.T) {
	var inputs []protocol.InputKind
	algorithm := centralServer("")
	plain := algorithm.New
	algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
		m, err := plain(c)
		return listener{m, &inputs}, err
	}
	sc := star(1)
	sc.Workload = Workload{}
	s, err := New(algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	s.At(5*second, func() { s.Cut("A") })
	s.At(6*second, func() { s.Pause("A") })
	s.At(7*second, func() { s.Reconnect("A") })
	s.At(8*second, func() { s.SetModels("S", protocol.Models{}); s.Depart("S"); s.Resume("A") })
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	want := []protocol.InputKind{protocol.Tick, protocol.Tick, protocol.Change, protocol.Depart, protocol.Reconnect}
	if len(inputs) != len(want) {
		t.Fatalf("got inputs %v, want %v", inputs, want)
	}
	for i := range want {
		if inputs[i] != want[i] {
			t.Fatalf("got inputs %v, want %v", inputs, want)
		}
	}
}

type listener struct {
	protocol.Machine
	inputs *[]protocol.InputKind
}

func (l listener) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	*l.inputs = append(*l.inputs, in.Kind)
	return l.Machine.Step(now, in, out)
}

func TestSettleStopsWhenNothingIsOnItsWay(t *testing.T) {
	sc := star(2)
	sc.Workload = Workload{}
	s := mustNew(t, "", sc)
	a := s.Request("A", Request{Resource: "crane", Hold: Forever})
	if err := s.Settle(10 * second); err != nil || !s.Inside(a) || s.Now() != 2*second {
		t.Fatalf("%v, inside %v at %s", err, s.Inside(a), seconds(s.Now()))
	}
	b := s.Request("B", Request{Resource: "crane", Hold: Forever})
	if err := s.Settle(10 * second); err != nil || s.Inside(b) {
		t.Fatalf("%v, inside %v", err, s.Inside(b))
	}
	s.Leave(a)
	if err := s.Settle(10 * second); err != nil || !s.Inside(b) || s.Inside(a) {
		t.Fatalf("%v, inside %v", err, s.Inside(b))
	}
	s.Request("A", Request{Resource: "crane"})
	if err := s.Settle(second / 2); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "1 messages are still on their way after 0.500s") {
		t.Errorf("got %v", err)
	}
}

func TestActionsThatCannotBeDone(t *testing.T) {
	for want, script := range map[string]func(*Sim){
		`"Z" crashes at 5.000s, but no such participant runs`: func(s *Sim) { s.Crash("Z") },
		`"A" crashes at 5.000s, but no such participant runs`: func(s *Sim) { s.Crash("A"); s.Crash("A") },
		`"A" cannot restart`:                                    func(s *Sim) { s.Restart("A") },
		`"A" asks for crane at 5.000s, but it is paused`:        func(s *Sim) { s.Pause("A"); s.Request("A", Request{Resource: "crane"}) },
		`request 77 cannot leave`:                               func(s *Sim) { s.Leave(77) },
		`are probabilities; got -1`:                             func(s *Sim) { s.SetNetwork(Network{Loss: -1}) },
		`"Z" changes its priority at 5.000s`:                    func(s *Sim) { s.SetPriority("Z", 1) },
		`"A" withdraws at 5.000s, but it is paused`:             func(s *Sim) { r := s.Request("A", Request{Resource: "crane"}); s.Pause("A"); s.Withdraw(r) },
		`"Q" resumes at 5.000s, but no such participant runs`:   func(s *Sim) { s.Resume("Q") },
		`"Q" is cut off at 5.000s, but no such participant run`: func(s *Sim) { s.Cut("Q") },
	} {
		_, _, err := manual(t, nil, func(s *Sim) { s.At(5*second, func() { script(s) }) })
		if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A workload goes on after a crash and a restart, once and not twice.
func TestARestartedWorkloadAsksOnce(t *testing.T) {
	sc := star(1)
	sc.Workload.Think = Constant(10 * second)
	s := mustNew(t, "", sc)
	s.At(9*second, func() { s.Crash("A") }) // it left at 8 s and would ask at 18 s
	s.At(10*second, func() { s.Restart("A") })
	s.At(11*second, func() { s.Crash("A") })
	s.At(12*second, func() { s.Restart("A") })
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	if r.Entries < 26 || r.Entries > 28 {
		t.Errorf("%d entries in 360 s at one in 13 s", r.Entries)
	}
}

// The leave that was planned for a hold which a crash has ended must not end the
// hold of another request.
func TestAnOldLeaveEndsNoOtherHold(t *testing.T) {
	_, _, err := manual(t, nil, func(s *Sim) {
		var b uint64
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: 10 * second}) }) // until 17 s
		s.At(8*second, func() { s.Crash("A"); b = s.Request("B", Request{Resource: "lift", Hold: Forever}) })
		s.At(30*second, func() {
			if !s.Inside(b) {
				t.Error("B is out")
			}
			s.Leave(b)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A workload that crashes inside has no request planned; a restart plans one.
func TestAWorkloadThatCrashedInsideGoesOn(t *testing.T) {
	sc := star(1)
	sc.Workload.Resources = []string{"crane"}
	s := mustNew(t, "", sc)
	s.At(10500*protocol.Millisecond, func() { // left at 8 s, asked at 9 s, inside from 11 s
		s.Crash("A")
		s.Restart("A")
		s.SetPriority("A", 3)
	})
	s.At(10600*protocol.Millisecond, func() {
		if s.nodes[1].asks != 1 {
			t.Errorf("%d requests are planned, want 1", s.nodes[1].asks)
		}
	})
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
}

func TestSettleFinishesTheInstant(t *testing.T) {
	sc := star(1)
	sc.Workload = Workload{}
	s := mustNew(t, "", sc)
	ref := s.Request("S", Request{Resource: "crane"}) // the server enters without a message, for no time
	if !s.Inside(ref) {
		t.Fatal("not inside")
	}
	if err := s.Settle(0); err != nil || s.Inside(ref) || s.Now() != 0 {
		t.Errorf("%v, inside %v at %s", err, s.Inside(ref), seconds(s.Now()))
	}
}

// A machine may find out only when the application leaves that the hold had
// expired: it reports the loss and refuses the leave, and nothing is wrong.
func TestALeaveMayCrossALapse(t *testing.T) {
	r, err := mustNew(t, "lapses", star(1)).Run()
	if err != nil {
		t.Fatal(err)
	}
	if r.LostHolds == 0 || r.LostHolds > uint64(r.Entries) || r.Entries < 89 {
		t.Errorf("%d of %d holds lost", r.LostHolds, r.Entries)
	}
}
