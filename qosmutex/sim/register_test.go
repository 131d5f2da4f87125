package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// candidates are n participants A, B, … that can be the root, each more important than
// the next. A creates the topic.
func candidates(n int) Scenario {
	sc := Scenario{
		Participants: Tree(n, 2, true), Timing: protocol.LAN(), Order: Shuffled,
		Settings:     protocol.Settings{Resources: []string{"crane"}},
		Network:      Network{Latency: Constant(10 * protocol.Millisecond)},
		Register:     Register{Latency: Constant(5 * protocol.Millisecond)},
		NewCandidate: newCandidate,
		Workload:     Workload{Resources: []string{"crane"}, Hold: Constant(second / 10), Think: Constant(second)},
		Start:        5 * second, Duration: 300 * second,
	}
	for i := range sc.Participants {
		p := &sc.Participants[i]
		p.Root, p.Candidate, p.Creates = false, true, i == 0
	}
	return sc
}

func newCandidate(p protocol.Config, l lease.Config) (Candidate, error) {
	return candidate.New(candidate.Config{Protocol: p, Lease: l})
}

func topic(t tb, sc Scenario) *Sim {
	t.Helper()
	s, err := New(padme.Algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A root that dies is followed by the most important of the others, and everybody goes
// on; all the time the root is whom the record names.
func TestTheRecordNamesTheNextRoot(t *testing.T) {
	s := topic(t, candidates(5))
	s.At(50*second, func() { s.Crash("A") })
	var root string
	var before, after int
	s.At(60*second, func() { root, before = s.Record().Record.Root.ID, s.Result().AtNode("C") })
	s.At(100*second, func() { s.Restart("A"); after = s.Result().AtNode("C") })
	r, err := s.Run()
	if err != nil || root != "B" || after-before < 20 {
		t.Errorf("%v: root %s, %d entries of C in 40 s; %v", err, root, after-before, r)
	}
	if rec := s.Record().Record; rec.Root != s.Node("A") || rec.Term < 3 {
		t.Errorf("the most important has come back, and the record names %v in term %d", rec.Root, rec.Term)
	}
}

// Whatever becomes of what is asked of the register, and of the register, the
// participants go on afterwards.
func TestTheRegisterSuffers(t *testing.T) {
	for seed := range uint64(40) {
		sc := candidates(4)
		sc.Seed = seed
		s := topic(t, sc)
		fine, bad := sc.Register, sc.Register
		bad.Lost, bad.Unanswered, bad.Late, bad.Lateness = 0.1, 0.1, 0.1, 6*second
		s.At(sc.Start, func() { s.SetRegister(bad) })
		for i := range protocol.Time(4) {
			at := (30 + 50*i) * second
			who := sc.Participants[i].ID
			s.At(at, s.RestartRegister)
			s.At(at+10*second, func() { s.Away(who); s.Away("A") })
			s.At(at+18*second, func() { s.Back(who); s.Back("A") })
			s.At(at+20*second, s.CloseRegister)
			s.At(at+25*second, s.OpenRegister)
		}
		s.At(240*second, func() { s.SetRegister(fine) })
		var before int
		s.At(260*second, func() { before = s.Result().Entries })
		r, err := s.Run()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if r.Entries-before < 50 {
			t.Errorf("seed %d: %d entries in the last 45 s", seed, r.Entries-before)
		}
	}
}

// A process that comes back at once, at the place that the record names, is the root
// again without waiting for its lease.
func TestARestartAtTheSamePlace(t *testing.T) {
	sc := candidates(2)
	sc.Participants[0].Place = "boot 1, /run/lock"
	s := topic(t, sc)
	s.At(50*second, func() { s.Crash("A"); s.Restart("A") })
	var rec protocol.Record
	s.At(50*second+second, func() { rec = s.Record().Record })
	if _, err := s.Run(); err != nil || rec.Root != (protocol.Node{ID: "A", Incarnation: 2}) {
		t.Errorf("%v: after a second the record names %v", err, rec.Root)
	}
}

// eager grants at once whatever is asked, and writes whatever it is told to.
type eager struct {
	protocol.Machine
	writes []lease.Write
	acts   bool
}

func (m *eager) Request() lease.Request {
	if len(m.writes) == 0 {
		return lease.Request{}
	}
	w := m.writes[0]
	m.writes = m.writes[1:]
	return lease.Request{Kind: lease.WriteRecord, Write: w}
}

func (m *eager) Answer(_ protocol.Time, _ *lease.Answer, out *protocol.Output) error {
	out.Reset()
	return nil
}

func (m *eager) ActsUntil() protocol.Time {
	if !m.acts {
		return 0
	}
	return 20 * second
}

func TestWrongRootsAndRecordsAreNoticed(t *testing.T) {
	node := protocol.Node{ID: "A", Incarnation: 1}
	fine := protocol.Record{Term: 2, Root: node, Lease: second, TTL: 2 * second, Ceiling: 1 << 20}
	version := func(n uint64) lease.Version {
		if n == 0 {
			return lease.Version{Domain: [16]byte{7: 1}}
		}
		return lease.Version{Domain: [16]byte{7: 1}, Counter: n, Nonce: n}
	}
	change := func(f func(*protocol.Record)) []lease.Write {
		next := fine
		f(&next)
		return []lease.Write{{Old: version(0), Record: fine, Nonce: 1}, {Old: version(1), Record: next, Nonce: 2}}
	}
	for want, c := range map[string]struct {
		writes []lease.Write
		acts   bool
	}{
		"[A B] act as the root":             {acts: true},
		"term 1 of A#1 follows term 2":      {writes: change(func(r *protocol.Record) { r.Term = 1 })},
		"term 2 of B#1 follows term 2":      {writes: change(func(r *protocol.Record) { r.Root.ID = "B" })},
		"the ceiling falls from 1048576 to": {writes: change(func(r *protocol.Record) { r.Ceiling-- })},
		"the TTL or the lease changes":      {writes: change(func(r *protocol.Record) { r.TTL += second })},
		"the term is 0":                     {writes: change(func(r *protocol.Record) { r.Term = 0 })},
	} {
		sc := candidates(2)
		sc.Workload = Workload{}
		sc.NewCandidate = func(p protocol.Config, _ lease.Config) (Candidate, error) {
			p.Candidate = false
			m, err := padme.New(p)
			e := &eager{Machine: m, acts: c.acts}
			if p.Self.ID == "A" {
				e.writes = c.writes
			}
			return e, err
		}
		_, err := topic(t, sc).Run()
		if !errors.Is(err, ErrViolation) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWrongScenariosWithARegister(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"A: the Root is no Candidate": func(sc *Scenario) { sc.Participants[0].Root = true },
		"only a Candidate Creates":    func(sc *Scenario) { sc.Participants[0].Candidate = false },
		"NewCandidate is not set":     func(sc *Scenario) { sc.NewCandidate = nil },
		"is a probability; got 2":     func(sc *Scenario) { sc.Register.Late = 2 },
		"a lateness of -1.000s":       func(sc *Scenario) { sc.Register.Lateness = -second },
		"the register":                func(sc *Scenario) { sc.Register.Latency = Constant(-1) },
	} {
		sc := candidates(2)
		change(&sc)
		if _, err := New(padme.Algorithm, sc); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	sc := candidates(2)
	sc.Participants[0] = Participant{ID: "A", Root: true}
	s := topic(t, sc)
	s.At(20*second, func() { s.Crash("A"); s.Restart("A") })
	if _, err := s.Run(); err == nil || !strings.Contains(err.Error(), `"A" cannot restart: it is the Root for good`) {
		t.Errorf("got %v", err)
	}
}

// What happens to the register is in the trace, and a seed is always the same run.
func TestTheRegisterInATrace(t *testing.T) {
	run := func() []string {
		var all []string
		sc := candidates(3)
		sc.Register.Lost = 0.2
		sc.Trace = func(r *Record) {
			if r.Event >= Recorded || r.Event == Crashed {
				all = append(all, r.String())
			}
		}
		s := topic(t, sc)
		s.At(20*second, func() { s.Away("B"); s.RestartRegister() })
		s.At(30*second, func() { s.Back("B"); s.CloseRegister() })
		s.At(40*second, func() { s.OpenRegister() })
		s.At(50*second, func() { s.Crash("A") })
		if _, err := s.Run(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	got := run()
	if again := run(); !slices.Equal(got, again) {
		t.Errorf("%v, then %v", got, again)
	}
	text := strings.Join(got, "\n") + "\n"
	for _, want := range []string{
		"register has: term 1, root A#1\n", "20.000s B does not reach the register\n20.000s register forgets\n",
		"30.000s B reaches the register\n30.000s register is closed\n", "40.000s register is open\n", "root B#1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, fmt.Sprint(text))
		}
	}
}
