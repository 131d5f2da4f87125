package sla

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// deadlineWorld is a pump of which the test sees the cores.
type deadlineWorld struct {
	*pump
	cores  []*deadlineCore
	floors []uint64
	tree   *static.Tree
}

func newDeadlineWorld(t *rapid.T, o DeadlineOptions, chance *rand.Rand, hop protocol.Duration) *deadlineWorld {
	n := 1 + chance.IntN(12)
	w := &deadlineWorld{}
	parents := randomTree(n, chance.IntN)
	a := Deadline(o)
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		tree, err := static.TreeOf(&cfg)
		if err != nil {
			return nil, err
		}
		w.tree = tree
		return static.New(cfg, func(e *static.Env) static.Core {
			c := newDeadlineCore(e, tree, o)
			w.cores[e.Self] = c
			return c
		})
	}
	w.cores, w.floors = make([]*deadlineCore, n), make([]uint64, n)
	w.pump = newPump(t, a, n, parents, func(i int, cfg *protocol.Config) {
		w.floors[i] = chance.Uint64N(10)
		cfg.Timing.Hop, cfg.FenceFloor = hop, w.floors[i]
	})
	return w
}

func drawDeadlineOptions(t *rapid.T) DeadlineOptions {
	return DeadlineOptions{Acknowledge: rapid.Bool().Draw(t, "ack"), Preempt: rapid.IntRange(-1, 4).Draw(t, "B")}
}

// one fails unless there is one token, with a participant or on its way, and every
// participant looks toward it.
func (w *deadlineWorld) one() {
	at := -1
	found := func(i int) {
		if at >= 0 {
			w.t.Fatalf("a token with %s and one with %s", w.name(at), w.name(i))
		}
		at = i
	}
	for i, c := range w.cores {
		if c != nil && c.holding() || c == nil && i == w.tree.Root() {
			found(i)
		}
	}
	for _, e := range w.events {
		if e.msg != nil && e.msg.Kind == protocol.KindToken {
			found(e.to)
		}
	}
	if at < 0 {
		w.t.Fatalf("the token is lost")
	}
	for i, c := range w.cores {
		if c != nil && i != at && c.father != w.tree.Next(i, at) {
			w.t.Fatalf("%s looks for the token at %s, not at %s", w.name(i), w.name(c.father), w.name(at))
		}
	}
}

// promises fails if what is promised where the token is excludes each other.
func (w *deadlineWorld) promises() {
	for i, c := range w.cores {
		if c == nil || !c.holding() {
			continue
		}
		for k := range c.queue {
			e := &c.queue[k]
			if k > 0 && !c.startsAfter(&c.queue[k-1], c.queue[k-1].deadline, e) {
				w.t.Fatalf("%s has promised %v and %v at %d, which excludes one", w.name(i), c.queue[k-1].id, e.id, w.now)
			}
		}
		if len(c.queue) > 0 && deadlineSum(c.release(), c.way(i, c.queue[0].origin)) > c.queue[0].deadline {
			w.t.Fatalf("%s has promised %v what it cannot keep at %d", w.name(i), c.queue[0].id, w.now)
		}
	}
}

// TestDeadlinesAreKept is the law of the response-time algorithm: whatever the tree,
// the requests, the clocks and the speed of messages up to Hop, whoever is not
// refused as unattainable enters by its deadline, and everybody gets an answer.
func TestDeadlinesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Everything but the variant is drawn evenly, not from small numbers upwards:
		// requests have to meet each other and the token.
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		hop := protocol.Duration(chance.Int64N(int64(40 * protocol.Millisecond)))
		w := newDeadlineWorld(t, drawDeadlineOptions(t), chance, hop)
		w.latency = func(_, _ int) protocol.Duration { return hop }
		if rapid.Bool().Draw(t, "faster") {
			w.latency = func(_, _ int) protocol.Duration {
				return protocol.Duration(chance.Int64N(int64(hop) + 1))
			}
		}
		for i := range w.nodes {
			w.nodes[i].offset = protocol.Duration(chance.Int64N(int64(protocol.Second)))
		}
		deadlines := map[uint64]protocol.Time{}
		stays := map[uint64]protocol.Duration{}
		w.onEnter = func(e pumpEntry) {
			if w.now > deadlines[e.ref] {
				t.Fatalf("%s enters at %d, too late for %d", w.name(e.node), w.now, deadlines[e.ref])
			}
			if e.fence <= w.floors[e.node] {
				t.Fatalf("%s enters with fence %d, not above %d", w.name(e.node), e.fence, w.floors[e.node])
			}
			w.at(w.now+stays[e.ref], func() { w.leave(e.node) })
		}
		w.onDeny = func(i int, d protocol.Denial) {
			if d.Reason != protocol.ReasonUnattainable {
				t.Fatalf("%s is refused at %d: %v", w.name(i), w.now, d.Reason)
			}
			if deadlines[d.Ref] == protocol.Never {
				t.Fatalf("%s is refused although it has no deadline", w.name(i))
			}
		}
		ask := func(i int) {
			in, stay := deadlineRequest(chance)
			deadline := protocol.Never
			if in.Within > 0 {
				deadline = w.now + in.Within
			}
			// The answer may come before acquire returns.
			deadlines[w.lastRef+1], stays[w.lastRef+1] = deadline, stay
			w.acquire(i, in)
		}
		for range chance.IntN(200) {
			at, i := protocol.Time(chance.Int64N(int64(2*protocol.Second))), chance.IntN(len(w.nodes))
			if chance.IntN(10) == 0 {
				w.at(at, func() {
					if len(w.nodes[i].waiting) > 0 {
						w.withdraw(i, w.nodes[i].waiting[0])
					}
				})
				continue
			}
			w.at(at, func() { ask(i) })
		}
		for w.next() >= 0 || w.nextWake() >= 0 {
			w.advance()
			w.one()
			w.promises()
		}
		for i := range w.nodes {
			if len(w.nodes[i].waiting) > 0 {
				t.Fatalf("%s waits for ever", w.name(i))
			}
			if c := w.cores[i]; c != nil && len(c.queue) > 0 && c.holding() {
				t.Fatalf("%s still has %v", w.name(i), c.queue)
			}
		}
	})
}

// advance runs what happens next.
func (w *deadlineWorld) advance() {
	next := protocol.Never
	if i := w.next(); i >= 0 {
		next = w.events[i].at
	}
	if i := w.nextWake(); i >= 0 {
		next = min(next, w.nodes[i].wakeAt)
	}
	w.runUntil(next)
}

// deadlineRequest draws a request and how long its application really stays.
func deadlineRequest(chance *rand.Rand) (in protocol.Input, stay protocol.Duration) {
	if chance.IntN(10) > 0 {
		in.Within = 1 + protocol.Duration(chance.Int64N(int64(800*protocol.Millisecond)))
	}
	stay = protocol.Duration(chance.Int64N(int64(60 * protocol.Millisecond)))
	if chance.IntN(10) > 0 {
		in.Hold = stay + 1 + protocol.Duration(chance.Int64N(int64(20*protocol.Millisecond)))
	}
	return in, stay
}

// TestDeadlineHostile feeds one participant of a working topic with messages that
// nobody should send. Nothing panics, what fits nothing is refused, what is sent
// goes to neighbors, and no queue holds more than one request of each participant.
func TestDeadlineHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 7
		o := drawDeadlineOptions(t)
		o.Literal = rapid.Bool().Draw(t, "literal")
		p := newPump(t, Deadline(o), n, nil, nil)
		self := rapid.IntRange(0, n-1).Draw(t, "self")
		m := p.nodes[self].machine
		var now protocol.Time
		var out protocol.Output
		var waiting []uint64
		var inside, ref uint64
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		step := func(in protocol.Input) {
			_ = m.Step(now, &in, &out)
			for _, g := range out.Grants {
				inside = g.Ref
			}
			for _, s := range out.Messages {
				tree, _ := static.TreeOf(&protocol.Config{Members: make([]string, n)})
				to, err := strconv.Atoi(s.To.ID)
				if err != nil || tree.Distance(self, to-1) != 1 {
					t.Fatalf("%v goes to %q", s.Kind, s.To.ID)
				}
				if len(s.Wishes) > n {
					t.Fatalf("a token with %d requests of %d participants", len(s.Wishes), n)
				}
			}
			if err := m.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += protocol.Time(rapid.IntRange(0, 50).Draw(t, "dt")) * protocol.Millisecond
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				ref++
				waiting = append(waiting, ref)
				in, _ := deadlineRequest(chance)
				in.Kind, in.Ref, in.Resource = protocol.Acquire, ref, lock
				step(in)
			case 1:
				step(protocol.Input{Kind: protocol.Leave, Ref: inside})
			case 2:
				if len(waiting) > 0 {
					step(protocol.Input{Kind: protocol.Withdraw, Ref: waiting[rapid.IntRange(0, len(waiting)-1).Draw(t, "ref")]})
				}
			default:
				msg := drawDeadlineMessage(t, n)
				msg.To = protocol.Node{ID: p.name(self)}
				step(protocol.Input{Kind: protocol.Receive, Message: msg})
			}
		}
	})
}

func drawDeadlineMessage(t *rapid.T, n int) *protocol.Message {
	node := func() protocol.Node {
		return protocol.Node{ID: strconv.Itoa(rapid.IntRange(0, n+1).Draw(t, "node")), Incarnation: 1}
	}
	id := func() protocol.RequestID {
		return protocol.RequestID{Node: node(), Clock: rapid.SampledFrom([]uint64{0, 1, 2, 3, 4, 5, 9, math.MaxUint64 / 2}).Draw(t, "clock")}
	}
	span := func() protocol.Duration {
		return rapid.SampledFrom([]protocol.Duration{
			0, 1, -1, protocol.Millisecond, 50 * protocol.Millisecond, protocol.Second, -protocol.Second, deadlineFarthest, math.MaxInt64, math.MinInt64,
		}).Draw(t, "span")
	}
	m := &protocol.Message{
		Kind: rapid.SampledFrom([]protocol.Kind{
			protocol.KindRequest, protocol.KindToken, protocol.KindToken, protocol.KindAck, protocol.KindDeny, protocol.KindWithdraw, protocol.KindReply,
		}).Draw(t, "kind"),
		From: node(), Resource: lock, ID: id(), Within: span(), Hold: span(),
		Reason: protocol.Reason(rapid.IntRange(0, 9).Draw(t, "reason")),
		Fences: protocol.Fences{Next: rapid.SampledFrom([]uint64{0, 1, 2, 5, 9, 99, math.MaxUint64}).Draw(t, "fence"), End: math.MaxUint64},
	}
	for range rapid.IntRange(0, n+1).Draw(t, "wishes") {
		m.Wishes = append(m.Wishes, protocol.Wish{ID: id(), Within: span(), Hold: span()})
	}
	return m
}
