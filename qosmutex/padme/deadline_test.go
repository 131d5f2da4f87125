package padme

import (
	"container/heap"
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

const ms = protocol.Millisecond

// wish is one request of an application in a timed run, and what became of it.
type wish struct {
	node   int
	at     protocol.Time // after the tree has formed
	within protocol.Duration
	says   protocol.Duration // how long it will stay; 0: it does not say
	stays  protocol.Duration
	gives  protocol.Duration // up after waiting for so long; 0: it does not

	entered bool
	waited  protocol.Duration
	denied  protocol.Reason
}

// timed runs machines of one tree where a message takes latency. Each machine has
// a clock of its own.
type timed struct {
	t        rapid.TB
	now      protocol.Time
	latency  protocol.Duration
	machines []*Machine
	wakes    []protocol.Time
	index    map[string]int
	out      protocol.Output
	events   schedule
	order    [eventEnd]int // which kind comes first at one instant
	seq      int
	wishes   []wish
	start    protocol.Time
	inside   int
}

type eventKind uint8

const (
	eventDeliver eventKind = iota
	eventAsk
	eventGiveUp
	eventLeave
	eventTick
	eventEnd
)

type event struct {
	at   protocol.Time
	rank int
	seq  int
	kind eventKind
	node int
	wish int
	wire []byte
}

type schedule []event

func (s schedule) Len() int      { return len(s) }
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(event)) }
func (s *schedule) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (s schedule) Less(i, j int) bool {
	a, b := s[i], s[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.rank != b.rank:
		return a.rank < b.rank
	}
	return a.seq < b.seq
}

// newTimed makes a tree in which parents[i] is the parent of i+1.
func newTimed(t rapid.TB, models protocol.Models, parents []int, hop, latency protocol.Duration, order [eventEnd]int) *timed {
	w := &timed{t: t, latency: latency, order: order, index: map[string]int{}}
	timing := protocol.LAN()
	timing.TTL, timing.Heartbeat, timing.Hop = 1000*protocol.Second, 250*protocol.Second, hop
	for i := range len(parents) + 1 {
		cfg := protocol.Config{
			Self: protocol.Node{ID: "n" + strconv.Itoa(i), Incarnation: 1}, Timing: timing, Fanout: len(parents) + 1, Priority: int64(i),
			Settings: protocol.Settings{Models: models, Resources: []string{"crane", "drill"}}, Root: i == 0,
		}
		if i > 0 {
			cfg.Parent = "n" + strconv.Itoa(parents[i-1])
		}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.index[cfg.Self.ID] = i
		w.machines, w.wakes = append(w.machines, m), append(w.wakes, protocol.Never)
		w.step(i, &protocol.Input{Kind: protocol.Tick})
	}
	w.start = 20 * protocol.Second
	w.until(w.start)
	for _, m := range w.machines[1:] {
		if m.role != protocol.Member {
			t.Fatalf("%v is %v", m.self, m.role)
		}
	}
	return w
}

func (w *timed) plan(e event) {
	w.seq++
	e.seq, e.rank = w.seq, w.order[e.kind]
	heap.Push(&w.events, e)
}

// clock is what the clock of machine i shows.
func (w *timed) clock(i int) protocol.Time {
	return w.now + protocol.Time(i+1)*7919*protocol.Second
}

func (w *timed) step(i int, in *protocol.Input) {
	if err := w.machines[i].Step(w.clock(i), in, &w.out); err != nil && in.Kind != protocol.Receive {
		w.t.Fatal(err)
	}
	for j := range w.out.Messages {
		msg := &w.out.Messages[j]
		to, ok := w.index[msg.To.ID]
		if msg.To.IsZero() { // a Join: only the parent would answer
			to, ok = w.index[msg.Parent.ID]
		}
		if ok {
			w.plan(event{at: w.now + w.latency, kind: eventDeliver, node: to, wire: protocol.AppendMessage(nil, msg)})
		}
	}
	for _, g := range w.out.Grants {
		x := &w.wishes[g.Ref-1]
		x.entered, x.waited = true, w.now-w.start-x.at
		if w.inside++; w.inside > 1 {
			w.t.Fatalf("%d are inside", w.inside)
		}
		w.plan(event{at: w.now + x.stays, kind: eventLeave, node: i, wish: int(g.Ref)})
	}
	for _, d := range w.out.Denials {
		w.wishes[d.Ref-1].denied = d.Reason
	}
	if at := w.now + max(0, w.out.WakeAt-w.clock(i)); w.out.WakeAt != protocol.Never && at != w.wakes[i] {
		w.wakes[i] = at
		w.plan(event{at: at, kind: eventTick, node: i})
	}
	if err := w.machines[i].CheckInvariants(); err != nil {
		w.t.Fatalf("%v: %v", w.machines[i].self, err)
	}
}

func (w *timed) until(t protocol.Time) {
	var d protocol.Decoder
	for len(w.events) > 0 && w.events[0].at < t {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		ref := uint64(e.wish)
		switch e.kind {
		case eventDeliver:
			var msg protocol.Message
			if err := d.Decode(e.wire, &msg); err != nil {
				w.t.Fatal(err)
			}
			w.step(e.node, &protocol.Input{Kind: protocol.Receive, Message: &msg})
		case eventAsk:
			x := &w.wishes[e.wish-1]
			w.step(e.node, &protocol.Input{Kind: protocol.Acquire, Ref: ref, Resource: "crane", Within: x.within, Hold: x.says})
		case eventGiveUp:
			if x := &w.wishes[e.wish-1]; !x.entered && x.denied == protocol.ReasonNone {
				x.denied = protocol.ReasonClosed
				w.step(e.node, &protocol.Input{Kind: protocol.Withdraw, Ref: ref})
			}
		case eventLeave:
			w.inside--
			w.step(e.node, &protocol.Input{Kind: protocol.Leave, Ref: ref})
		case eventTick:
			if w.wakes[e.node] == e.at {
				w.step(e.node, &protocol.Input{Kind: protocol.Tick})
			}
		}
	}
	w.now = t
}

// run lets the wishes happen and returns what became of them.
func (w *timed) run(wishes []wish) []wish {
	w.wishes = wishes
	for i := range wishes {
		x := &wishes[i]
		w.plan(event{at: w.start + x.at, kind: eventAsk, node: x.node, wish: i + 1})
		if x.gives > 0 {
			w.plan(event{at: w.start + x.at + x.gives, kind: eventGiveUp, node: x.node, wish: i + 1})
		}
	}
	w.until(w.start + 100*protocol.Second)
	for i, x := range wishes {
		if !x.entered && x.denied == protocol.ReasonNone {
			w.t.Fatalf("wish %d %+v was never answered", i, x)
		}
	}
	return wishes
}

var deadlineModels = protocol.Models{Priority: protocol.Deadline, Request: protocol.RequestReplace, Reply: protocol.Use, Release: protocol.Use}

// drawn is a random tree and random wishes.
func drawn(r *rapid.T, models protocol.Models, latency, hop protocol.Duration) (*timed, []wish) {
	var parents []int
	for i := range rapid.IntRange(1, 7).Draw(r, "members") {
		parents = append(parents, rapid.IntRange(max(0, i-2), i).Draw(r, "parent"))
	}
	var order [eventEnd]int
	for i, k := range rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(r, "order") {
		order[i] = k
	}
	w := newTimed(r, models, parents, hop, latency, order)
	one := rapid.Custom(func(r *rapid.T) wish {
		x := wish{
			node: rapid.IntRange(0, len(parents)).Draw(r, "node"), at: protocol.Time(rapid.IntRange(0, 100).Draw(r, "at")) * 10 * ms,
			within: protocol.Duration(rapid.IntRange(0, 100).Draw(r, "within")) * 10 * ms,
			stays:  protocol.Duration(rapid.IntRange(1, 10).Draw(r, "stays")) * 10 * ms,
		}
		if x.says = x.stays; rapid.IntRange(0, 9).Draw(r, "says") == 0 {
			x.says = 0
		}
		if rapid.IntRange(0, 9).Draw(r, "gives up") == 0 {
			x.gives = 70 * ms
		}
		return x
	})
	return w, rapid.SliceOfN(one, 1, 40).Draw(r, "wishes")
}

// TestAdmittedIsServedInTime: what the root has taken enters in time, whatever else
// is asked for, while messages take at most a Hop and stays are as declared.
func TestAdmittedIsServedInTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const hop = 10 * ms
		latency := rapid.SampledFrom([]protocol.Duration{hop, hop / 2, 0}).Draw(r, "latency")
		w, wishes := drawn(r, deadlineModels, latency, hop)
		for i, x := range w.run(wishes) {
			switch {
			case x.entered && x.within > 0 && x.waited > x.within:
				r.Fatalf("wish %d entered after %v, which is not within %v", i, x.waited, x.within)
			case x.denied == protocol.ReasonUnattainable && x.within > 0, x.denied == protocol.ReasonClosed && x.gives > 0:
			case x.denied != protocol.ReasonNone:
				r.Fatalf("wish %d %+v: %v", i, x, x.denied)
			}
		}
	})
}

// TestSomeAreAdmittedAndSomeRefused keeps the property above from holding because
// nobody is admitted, or because nobody has to be refused. Where the declared stay
// is a lie, so that admission lets everybody pass, deadlines are missed; so they
// are in the order of the other models.
func TestSomeAreAdmittedAndSomeRefused(t *testing.T) {
	const hop = 10 * ms
	run := func(models protocol.Models, lie bool) (count map[protocol.Reason]int) {
		w := newTimed(t, models, []int{0, 0, 1, 1}, hop, hop, [eventEnd]int{0, 1, 2, 3, 4})
		var wishes []wish
		for i := range 200 {
			x := wish{node: i % 5, at: protocol.Time(i*37%1000) * 4 * ms, within: protocol.Duration(100+i*53%400) * ms, stays: 50 * ms, says: 50 * ms}
			if lie {
				x.says = 1
			}
			wishes = append(wishes, x)
		}
		count = map[protocol.Reason]int{}
		for _, x := range w.run(wishes) {
			count[x.denied]++
		}
		return count
	}
	got := run(deadlineModels, false)
	if got[protocol.ReasonNone] < 20 || got[protocol.ReasonUnattainable] < 20 || got[protocol.ReasonMissed] != 0 {
		t.Errorf("with admission: %v", got)
	}
	if got := run(deadlineModels, true); got[protocol.ReasonMissed] < 5 {
		t.Errorf("with stays that are longer than declared: %v", got)
	}
	for name, got := range map[string]map[protocol.Reason]int{
		"fair":  run(protocol.Models{Priority: protocol.Fair}, false),
		"level": run(protocol.Models{}, false),
	} {
		if got[protocol.ReasonMissed] < 20 || got[protocol.ReasonNone] == 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAttainableIsAdmitted: a request that competes with nobody is taken if, and
// only if, it and its token have the time to travel; one behind a holder, if the
// token can be there after the holder's declared stay.
func TestAttainableIsAdmitted(t *testing.T) {
	const hop = 10 * ms
	parents := []int{0, 1, 2} // a chain
	for node := range 4 {
		way := 2 * hop * protocol.Duration(node)
		for _, within := range []protocol.Duration{way - 1, way, way + 1, 2 * way} {
			if within <= 0 {
				continue
			}
			t.Run(fmt.Sprintf("alone/%d/%d", node, within), func(t *testing.T) {
				w := newTimed(t, deadlineModels, parents, hop, hop, [eventEnd]int{})
				x := w.run([]wish{{node: node, within: within, says: ms, stays: ms}})[0]
				if x.entered != (within >= way) || x.entered && x.waited != way {
					t.Errorf("%+v; the way takes %d", x, way)
				}
			})
		}
	}
	// The holder is two hops from the root and asks at 0: its token is home at
	// 6 hops and its stay; the second's takes as long again as its depth.
	for node := range 4 {
		for _, stay := range []protocol.Duration{0, 50 * ms} {
			home := 6*hop + stay
			need := home - 3*hop + hop*protocol.Duration(node)
			for _, within := range []protocol.Duration{need - 1, need} {
				t.Run(fmt.Sprintf("behind/%d/%d/%d", node, stay, within), func(t *testing.T) {
					w := newTimed(t, deadlineModels, parents, hop, hop, [eventEnd]int{})
					x := w.run([]wish{
						{node: 2, within: 4 * hop, says: stay, stays: max(stay, ms)},
						{node: node, at: 3 * hop, within: within, says: ms, stays: ms},
					})[1]
					if want := within == need && stay > 0; x.entered != want {
						t.Errorf("%+v; it needs %d", x, need)
					}
				})
			}
		}
	}
}

// TestAbsurdTimes: times beyond all bounds are taken for what they mean.
func TestAbsurdTimes(t *testing.T) {
	const hop, absurd = 10 * ms, protocol.Never
	got := newTimed(t, deadlineModels, []int{0, 0}, hop, hop, [eventEnd]int{}).run([]wish{
		{node: 1, within: absurd, says: 50 * ms, stays: 50 * ms},              // any time will do
		{node: 2, within: -absurd, says: -absurd, stays: ms},                  // no deadline, and nobody knows how long
		{node: 1, at: 2 * hop, within: 300 * ms, says: absurd, stays: 2 * ms}, // for ever
		{node: 2, at: 4 * hop, within: 400 * ms, says: ms, stays: ms},         // behind it
		{node: 0, at: 4 * hop, within: 200 * ms, says: ms, stays: ms},         // before it
	})
	want := []protocol.Reason{0, 0, 0, protocol.ReasonUnattainable, 0}
	for i, x := range got {
		if x.denied != want[i] || x.entered != (want[i] == 0) {
			t.Errorf("%d: %+v, want %v", i, x, want[i])
		}
	}
}
