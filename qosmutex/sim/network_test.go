package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// chatter sends a numbered message every millisecond to everybody, and notes the
// numbers that arrive from each.
type chatter struct {
	self protocol.Node
	sent uint64
	next protocol.Time
	got  map[string][]uint64
}

func (c *chatter) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	switch {
	case in.Kind == protocol.Receive:
		c.got[in.Message.From.ID] = append(c.got[in.Message.From.ID], in.Message.Seq)
	case now >= c.next:
		c.sent++
		c.next = now + protocol.Millisecond
		out.Messages = append(out.Messages, protocol.Message{Kind: protocol.KindJoin, From: c.self, Seq: c.sent})
	}
	out.WakeAt = c.next
	return nil
}

func (c *chatter) Status() protocol.Status { return protocol.Status{Role: protocol.Root} }

// chat runs three chatters for a second and returns what A got from B, and how
// many B sent.
func chat(t *testing.T, net Network, order Order, script func(*Sim)) (got []uint64, sent uint64) {
	t.Helper()
	var all []*chatter
	algorithm := protocol.Algorithm{Name: "chatter", New: func(c protocol.Config) (protocol.Machine, error) {
		all = append(all, &chatter{self: c.Self, got: map[string][]uint64{}})
		return all[len(all)-1], nil
	}}
	s, err := New(algorithm, Scenario{
		Seed: 7, Participants: Tree(3, 2, false), Timing: protocol.LAN(), Network: net, Order: order, Duration: second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if script != nil {
		script(s)
	}
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return all[0].got["B"], all[1].sent
}

func TestOrderOfAPairIsKeptUnlessToldOtherwise(t *testing.T) {
	late := Network{Latency: Uniform(protocol.Millisecond, 11*protocol.Millisecond)}
	loose := late
	loose.Reorder = true
	doubled := late
	doubled.Duplicate = 0.1
	changing := func(s *Sim) {
		for i, n := range []Network{{Latency: Constant(40 * protocol.Millisecond)}, {}, late, doubled, {}, late} {
			s.At(protocol.Time(i+1)*second/8, func() { s.SetNetwork(n) })
		}
	}
	slower := func(s *Sim) {
		s.At(second/2, func() { s.SetNetwork(Network{}) }) // faster: must not overtake what is on its way
	}
	paused := func(s *Sim) {
		s.At(second/4, func() { s.Pause("A") })
		s.At(second/2, func() { s.Resume("A") })
	}
	for _, c := range []struct {
		name   string
		net    Network
		order  Order
		script func(*Sim)
		sorted bool
	}{
		{"constant", Network{Latency: Constant(10 * protocol.Millisecond)}, ApplicationFirst, nil, true},
		{"jitter", late, ApplicationFirst, nil, true},
		{"jitter shuffled", late, Shuffled, nil, true},
		{"none shuffled", Network{}, Shuffled, nil, true},
		{"faster", late, MessagesFirst, slower, true},
		{"constant faster", Network{Latency: Constant(50 * protocol.Millisecond)}, ApplicationFirst, slower, true},
		{"paused", late, Shuffled, paused, true},
		{"doubled", doubled, Shuffled, nil, true},
		{"changing", doubled, MessagesFirst, changing, true},
		{"loose", loose, ApplicationFirst, nil, false},
	} {
		got, sent := chat(t, c.net, c.order, c.script)
		if slices.IsSorted(got) != c.sorted {
			t.Errorf("%s: sorted is %v, want %v", c.name, !c.sorted, c.sorted)
		}
		if len(got) < int(sent)-15 {
			t.Errorf("%s: %d of %d arrived", c.name, len(got), sent)
		}
	}
}

func TestTheTraceNamesWhoGetsAMulticast(t *testing.T) {
	heard := map[string]bool{}
	lost := map[string]bool{}
	_, _ = chat(t, Network{Latency: Constant(protocol.Millisecond), Loss: 0.5}, ApplicationFirst, func(s *Sim) {
		s.scenario.Trace = func(r *Record) {
			switch r.Event {
			case Delivered:
				heard[r.Node+"←"+r.Peer] = true
			case Lost:
				lost[r.Node+"→"+r.Peer] = true
			}
		}
	})
	for _, a := range []string{"A", "B", "C"} {
		for _, b := range []string{"A", "B", "C"} {
			if heard[a+"←"+b] != (a != b) || lost[a+"→"+b] != (a != b) {
				t.Errorf("%s←%s: heard %v, lost %v", a, b, heard[a+"←"+b], lost[b+"→"+a])
			}
		}
	}
}

func TestLossAndDuplicationHaveTheirShare(t *testing.T) {
	got, sent := chat(t, Network{Latency: Constant(protocol.Millisecond), Loss: 0.3}, ApplicationFirst, nil)
	if share := float64(len(got)) / float64(sent); share < 0.62 || share > 0.78 {
		t.Errorf("with 30 %% loss %.2f arrive", share)
	}
	got, sent = chat(t, Network{Latency: Constant(protocol.Millisecond), Duplicate: 0.3}, ApplicationFirst, nil)
	if share := float64(len(got)) / float64(sent); share < 1.22 || share > 1.38 {
		t.Errorf("with 30 %% duplicates %.2f arrive", share)
	}
	if !slices.IsSorted(got) {
		t.Error("a duplicate overtook a later message")
	}
}

func TestClocksDriftAndAreReadBackwards(t *testing.T) {
	for _, ppm := range []int64{0, 1, -1, 10_000, -10_000, maxDrift, -maxDrift} {
		n := node{Participant: &Participant{ClockOffset: -3 * second, ClockDrift: ppm}}
		hour := 3600 * second
		if got, want := n.local(hour), hour-3*second+hour/1_000_000*protocol.Time(ppm); got != want {
			t.Errorf("%d ppm: the clock shows %d, want %d", ppm, got, want)
		}
		r := rand.New(rand.NewPCG(1, uint64(ppm)))
		for range 1000 {
			at := protocol.Time(r.Int64N(int64(1000 * hour)))
			shown := n.local(at)
			if got := n.instant(shown, 0); n.local(got) < shown || got > 0 && n.local(got-1) >= shown {
				t.Fatalf("%d ppm: %d is shown at %d, found at %d", ppm, shown, at, got)
			}
		}
		if n.instant(protocol.Never, 5) != protocol.Never || n.instant(-100*second, 5) != 5 {
			t.Errorf("%d ppm: limits", ppm)
		}
	}
}

func TestTheQueueSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue
	var want []event
	for seq := range uint64(5000) {
		e := event{at: protocol.Time(r.IntN(200)), rank: uint32(r.IntN(3)), seq: seq}
		q.push(e)
		want = append(want, e)
		if r.IntN(3) == 0 { // and some leave meanwhile
			slices.SortFunc(want, compareEvents)
			if got := q.pop(); got != want[0] {
				t.Fatalf("got %+v, want %+v", got, want[0])
			}
			want = want[1:]
		}
	}
	slices.SortFunc(want, compareEvents)
	for _, w := range want {
		if got := q.pop(); got != w {
			t.Fatalf("got %+v, want %+v", got, w)
		}
	}
}

func compareEvents(a, b event) int {
	switch {
	case a == b:
		return 0
	case a.before(&b):
		return -1
	}
	return 1
}

// sleeper moves its wake-up time with every step and notes when it is woken.
type sleeper struct {
	steps int
	woken *[]protocol.Time
}

func (m *sleeper) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	m.steps++
	switch {
	case in.Kind == protocol.Tick:
		*m.woken = append(*m.woken, now)
		out.WakeAt = now + 10*second
	case m.steps%2 == 0:
		out.WakeAt = now + second // sooner
	default:
		out.WakeAt = now + 10*second // later
	}
	return nil
}

func (m *sleeper) Status() protocol.Status { return protocol.Status{Role: protocol.Root} }

func TestOneTickPerMachineWaits(t *testing.T) {
	var woken []protocol.Time
	algorithm := protocol.Algorithm{Name: "sleeper", New: func(protocol.Config) (protocol.Machine, error) { return &sleeper{woken: &woken}, nil }}
	s, err := New(algorithm, Scenario{Participants: Tree(1, 2, false), Timing: protocol.LAN(), Duration: 60 * second})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(second); err != nil {
		t.Fatal(err)
	}
	for range 1001 { // ends with "later": 11 s
		s.SetPriority("A", 1)
	}
	if len(s.events) > 1000 {
		t.Errorf("%d events wait", len(s.events))
	}
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	// The first wake-up at 0; moved 1001 times at 1 s, at last to 2 s; then every
	// 10 s, and no more often.
	want := []protocol.Time{0, 2 * second, 12 * second, 22 * second, 32 * second, 42 * second, 52 * second}
	if !slices.Equal(woken, want) {
		t.Errorf("woken at %v, want %v", woken, want)
	}
	if len(s.events) != 1 {
		t.Errorf("%d events wait for one machine", len(s.events))
	}
}

// What a burst has taken is given back: the memory of packets and of the queue.
func TestABurstIsForgotten(t *testing.T) {
	for _, fast := range []bool{false, true} {
		sc := star(0)
		for i := range 5000 {
			sc.Participants = append(sc.Participants, Participant{ID: treeName(i, 5000), Parent: "S"})
		}
		sc.Fast, sc.Duration, sc.Network.Latency = fast, 20*second, Constant(protocol.Millisecond)
		sc.Workload = Workload{Resources: []string{"crane"}, Think: Exponential(1000 * second)}
		s := mustNew(t, "", sc)
		burst := 0
		s.At(sc.Start+protocol.Microsecond, func() { burst = len(s.packets) }) // all ask at Start
		if _, err := s.Run(); err != nil {
			t.Fatal(err)
		}
		if burst < 5000 || len(s.events) > 6000 {
			t.Fatalf("no burst: %d packets, %d events", burst, len(s.events))
		}
		kept := 0
		for _, p := range s.packets {
			if p.wire != nil || p.copied != nil {
				kept++
			}
		}
		if on := len(s.packets) - len(s.freePackets) - len(s.barePackets); kept > keptPackets+on || len(s.packets) > 2*keptPackets+on {
			t.Errorf("fast=%v: %d of %d packets keep their memory, %d are on their way", fast, kept, len(s.packets), on)
		}
		for len(s.events) > 0 {
			s.events.pop()
		}
		if cap(s.events) > keptEvents {
			t.Errorf("an empty queue has room for %d", cap(s.events))
		}
	}
}

// The pairs that have nothing on its way are forgotten.
func TestOrderIsKeptForFewPairs(t *testing.T) {
	sc := star(0)
	for i := range 4000 {
		sc.Participants = append(sc.Participants, Participant{ID: treeName(i, 5000), Parent: "S"})
	}
	sc.Network.Latency = Uniform(0, second/1000)
	sc.Workload = Workload{Resources: []string{"crane"}, Every: Exponential(1000 * second)}
	s := mustNew(t, "", sc)
	if r, err := s.Run(); err != nil || r.Entries < 1000 {
		t.Fatalf("%v, %d entries", err, r.Entries)
	}
	if len(s.order) > 2*leastOrder {
		t.Errorf("%d pairs are remembered", len(s.order))
	}
}

// A participant that joins later hears nothing before, and its first Step is a
// Tick, even if its application asks at that instant.
func TestTheFirstStepIsATick(t *testing.T) {
	first := map[string][]protocol.InputKind{}
	at := map[string]protocol.Time{}
	algorithm := protocol.Algorithm{Name: "caller", New: func(c protocol.Config) (protocol.Machine, error) {
		return &caller{self: c.Self, first: first, at: at}, nil
	}}
	sc := star(2)
	sc.Participants[2].Joins = 20 * second
	sc.Workload.Hold = Constant(1)
	s, err := New(algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]protocol.Time{"S": 0, "A": 0, "B": 20 * second} {
		if len(first[id]) < 2 || first[id][0] != protocol.Tick || at[id] != want {
			t.Errorf("%s began at %s with %v", id, seconds(at[id]), first[id])
		}
	}
	if len(first["B"]) < 2 || first["B"][1] != protocol.Acquire {
		t.Errorf("B heard %v", first["B"])
	}
}

// caller calls to everybody at each tick, and never grants anything.
type caller struct {
	self  protocol.Node
	first map[string][]protocol.InputKind
	at    map[string]protocol.Time
	next  protocol.Time
}

func (c *caller) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	if len(c.first[c.self.ID]) == 0 {
		c.at[c.self.ID] = now
	}
	c.first[c.self.ID] = append(c.first[c.self.ID], in.Kind)
	if now >= c.next {
		c.next = now + second
		out.Messages = append(out.Messages, protocol.Message{Kind: protocol.KindJoin, From: c.self})
	}
	out.WakeAt = c.next
	return nil
}

func (c *caller) Status() protocol.Status { return protocol.Status{Role: protocol.Member} }

func TestNobodyAsksBeforeJoining(t *testing.T) {
	_, _, err := manual(t, func(sc *Scenario) { sc.Participants[1].Joins = 6 * second }, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane"}) })
	})
	if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "no such participant runs") {
		t.Errorf("got %v", err)
	}
}

// Every machine hears who takes part, in which tree, and gets a seed of its own,
// another one for another scenario and after a restart.
func TestMachinesAreToldWhoTakesPart(t *testing.T) {
	seeds := map[uint64]bool{}
	for seed := range uint64(3) {
		var configs []protocol.Config
		algorithm := centralServer("")
		plain := algorithm.New
		algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
			configs = append(configs, c)
			return plain(c)
		}
		sc := star(2)
		sc.Seed, sc.Fanout, sc.Workload = seed, 3, Workload{}
		s, err := New(algorithm, sc)
		if err != nil {
			t.Fatal(err)
		}
		s.At(second, func() { s.Crash("B"); s.Restart("B") })
		if _, err := s.Run(); err != nil {
			t.Fatal(err)
		}
		for _, c := range configs {
			if !slices.Equal(c.Members, []string{"S", "A", "B"}) || !slices.Equal(c.Parents, []int{-1, 0, 0}) || c.Fanout != 3 || seeds[c.Seed] {
				t.Errorf("got %+v", c)
			}
			seeds[c.Seed] = true
		}
	}
	if len(seeds) != 12 {
		t.Errorf("%d seeds", len(seeds))
	}
}

func TestTheHeightOfTheTree(t *testing.T) {
	two := Scenario{Participants: []Participant{{ID: "X"}, {ID: "Y"}, {ID: "Z", Parent: "Y"}}}
	if _, parents, height := two.tree(); !slices.Equal(parents, []int{-1, -1, 1}) || height != 1 {
		t.Errorf("two roots: parents %v, height %d", parents, height)
	}
	for want, sc := range map[int]Scenario{
		0: {Participants: Tree(1, 2, false)},
		3: {Participants: Tree(8, 2, false)},
		2: {Participants: Tree(13, 3, true), Fanout: 3},
		4: {Participants: Tree(16, 3, true)}, // Fanout 0: 2
	} {
		if _, parents, height := sc.tree(); height != want || (parents == nil) != (sc.Participants[len(sc.Participants)-1].Parent == "") {
			t.Errorf("height %d, want %d; parents %v", height, want, parents)
		}
	}
}
