package sim

import (
	"math/rand/v2"
	"slices"
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
	late := Network{Latency: protocol.Millisecond, Jitter: 10 * protocol.Millisecond}
	loose := late
	loose.Reorder = true
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
		{"constant", Network{Latency: 10 * protocol.Millisecond}, ApplicationFirst, nil, true},
		{"jitter", late, ApplicationFirst, nil, true},
		{"jitter shuffled", late, Shuffled, nil, true},
		{"none shuffled", Network{}, Shuffled, nil, true},
		{"faster", late, MessagesFirst, slower, true},
		{"paused", late, Shuffled, paused, true},
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
	_, _ = chat(t, Network{Latency: protocol.Millisecond, Loss: 0.5}, ApplicationFirst, func(s *Sim) {
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
	got, sent := chat(t, Network{Latency: protocol.Millisecond, Loss: 0.3}, ApplicationFirst, nil)
	if share := float64(len(got)) / float64(sent); share < 0.62 || share > 0.78 {
		t.Errorf("with 30 %% loss %.2f arrive", share)
	}
	got, sent = chat(t, Network{Latency: protocol.Millisecond, Duplicate: 0.3}, ApplicationFirst, nil)
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

func TestSamplesSortAgain(t *testing.T) {
	var s Sample
	for _, d := range []protocol.Duration{5, 3, 4} {
		s.add(d)
	}
	if s.Quantile(0.5) != 4 || s.Quantile(0) != 3 || s.Quantile(1) != 5 {
		t.Errorf("got %v", &s)
	}
	s.add(1)
	s.add(9)
	if s.Quantile(0) != 1 || s.Quantile(0.5) != 4 || s.Quantile(1) != 9 || s.Quantile(0.2) != 1 || s.Quantile(0.21) != 3 || s.Mean() != 4 {
		t.Errorf("got %v", &s)
	}
	if none := new(Sample); none.Mean() != 0 || none.Quantile(1) != 0 {
		t.Error("an empty sample is not 0")
	}
}
