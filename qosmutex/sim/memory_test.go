package sim

import (
	"runtime"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// crowd is a tree of n, who join one after another. Everybody enters every
// now and then: on average a hundredth of the participants ask within ten seconds,
// and messages take a millisecond.
func crowd(t testing.TB, algorithm protocol.Algorithm, n int) *Sim {
	t.Helper()
	m, err := protocol.ParseModels("fair-forward-use-use")
	if err != nil {
		t.Fatal(err)
	}
	sc := PaperScenario(m, protocol.Millisecond)
	sc.Participants = Tree(n, 8, false)
	for i := range sc.Participants {
		sc.Participants[i].Joins = protocol.Time(i) * protocol.Millisecond
	}
	sc.Timing.TTL, sc.Timing.Heartbeat = 3600*second, 900*second
	sc.Workload = Workload{Resources: []string{PaperResource}, Hold: Constant(protocol.Millisecond), Every: Uniform(0, 2000*second)}
	sc.Start, sc.Duration = 60*second, 3000*second
	sc.Fast = true
	s, err := New(algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// refuser is a machine of hardly any size: it refuses every request, and greets its
// neighbor every 900 s.
type refuser struct{ next *protocol.Node }

func (m refuser) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	switch in.Kind {
	case protocol.Tick:
		out.Messages = append(out.Messages, protocol.Message{Kind: protocol.KindBeat, From: *m.next, To: *m.next})
	case protocol.Acquire:
		out.Denials = append(out.Denials, protocol.Denial{Ref: in.Ref, Resource: in.Resource, Reason: protocol.ReasonBusy})
	}
	out.WakeAt = now + 900*second
	return nil
}

func (m refuser) Status() protocol.Status { return protocol.Status{Role: protocol.Member} }

// What the simulator itself needs for each participant.
func TestTheSimulatorIsSmall(t *testing.T) {
	const (
		n     = 10_000
		limit = 512 // bytes each
	)
	next := &protocol.Node{ID: "n1", Incarnation: 1}
	refusing := protocol.Algorithm{Name: "refuser", New: func(protocol.Config) (protocol.Machine, error) { return refuser{next}, nil }}
	before := liveHeap()
	s := crowd(t, refusing, n)
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	each := (liveHeap() - before) / n
	t.Logf("%d bytes each; %d refused, %d events", each, r.Denied, s.Events())
	if each > limit {
		t.Errorf("%d bytes for each of %d participants, want at most %d", each, n, limit)
	}
	if r.Denied < n || r.Upkeep < n {
		t.Errorf("nothing happened: %v", r)
	}
	runtime.KeepAlive(s)
}

// Ten thousand participants of one tree, everybody joined and served, fit into a
// test: simulator, machines and both ends of every link.
func TestTenThousandParticipants(t *testing.T) {
	const (
		n     = 10_000
		limit = 3200 // bytes each
	)
	before := liveHeap()
	s := crowd(t, padme.Algorithm, n)
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	each := (liveHeap() - before) / n
	for i := range r.ByNode {
		if r.ByNode[i].Entries == 0 {
			t.Fatalf("%s was never inside: %v", r.ByNode[i].Node, r)
		}
	}
	t.Logf("%d bytes each; %d entries, %d events", each, r.Entries, s.Events())
	if each > limit {
		t.Errorf("%d bytes for each of %d participants, want at most %d", each, n, limit)
	}
	runtime.KeepAlive(s)
}

// What is kept to count inversions does not grow with the run.
func TestCountingInversionsTakesLittle(t *testing.T) {
	sc := star(12)
	sc.Network.Latency, sc.Duration = Uniform(0, second), 2000*second
	sc.Workload = Workload{
		Resources: []string{"crane", "lift"}, Hold: Uniform(0, 2*second), Think: Uniform(0, 5*second), Priorities: []int64{4, 1, 3, -2},
		Deadlines: []protocol.Duration{3 * second, 9 * second}, GiveUp: true,
	}
	s := mustNew(t, "", sc)
	r, err := s.Run()
	if err != nil || r.Inversions.Pending == r.Inversions.Known || r.Inversions.Known == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, of := range s.resources {
		if o := &of.overtaking; len(o.peaks) > 4 || len(o.priorities) > 4 || len(o.fresh) > 2*len(sc.Participants) {
			t.Errorf("%d peaks, %d priorities, %d fresh", len(o.peaks), len(o.priorities), len(o.fresh))
		}
	}
}
