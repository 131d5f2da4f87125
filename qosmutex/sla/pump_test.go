package sla

import (
	"slices"
	"strconv"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// lock is the resource of all tests here.
const lock = "crane"

// failer is what the pump needs of a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// pump runs the machines of one topic in virtual time and holds them to what every
// algorithm owes: one inside at a time, fences that rise, invariants, answers only
// to questions that were asked. Channels are FIFO. Set latency, then drive it with
// ask, leave, withdraw, at, and let messages arrive by deliver, settle or runUntil.
type pump struct {
	t     failer
	nodes []*pumpNode
	// latency of each message; nil: none.
	latency func(from, to int) protocol.Duration
	// onEnter and onDeny, if set, are called when an output has been handled.
	onEnter func(pumpEntry)
	onDeny  func(i int, d protocol.Denial)

	now     protocol.Time
	seq     int
	events  []pumpEvent
	arrives map[[2]int]protocol.Time // of the last message on each channel
	lastRef uint64
	lastKey uint64 // fence of the last entry
	inside  int    // -1: nobody

	entries []pumpEntry
	denials []pumpDenial
	sent    map[protocol.Kind]int
}

type pumpNode struct {
	machine *static.Machine
	offset  protocol.Duration // its own clock shows this much more
	wakeAt  protocol.Time     // in virtual time
	ref     uint64            // of the last request
	waiting []uint64          // refs that were not answered yet
	holding uint64            // ref inside
}

// pumpEvent is a message on its way, or, with do, an act of the test.
type pumpEvent struct {
	at       protocol.Time
	seq      int
	from, to int
	msg      *protocol.Message
	do       func()
}

type pumpEntry struct {
	node     int
	at       protocol.Time
	ref      uint64
	fence    uint64
	priority int64
}

type pumpDenial struct {
	node   int
	at     protocol.Time
	ref    uint64
	reason protocol.Reason
}

// pumpConfig is what node i of a pump is made from; parents as in protocol.Config.
func pumpConfig(i, n int, parents []int) protocol.Config {
	cfg := protocol.Config{
		Timing: protocol.LAN(), Settings: protocol.Settings{Resources: []string{lock}},
		Parents: parents, Seed: uint64(i) + 1,
	}
	for k := range n {
		cfg.Members = append(cfg.Members, strconv.Itoa(k+1))
	}
	cfg.Self = protocol.Node{ID: cfg.Members[i], Incarnation: 1}
	return cfg
}

// newPump makes n machines of algorithm a on the tree of parents (nil: a complete
// binary tree), named "1", "2", … as in the paper's figures. change, if not nil,
// may alter each configuration.
func newPump(t failer, a protocol.Algorithm, n int, parents []int, change func(i int, cfg *protocol.Config)) *pump {
	t.Helper()
	p := &pump{t: t, arrives: map[[2]int]protocol.Time{}, sent: map[protocol.Kind]int{}, inside: -1}
	for i := range n {
		cfg := pumpConfig(i, n, parents)
		if change != nil {
			change(i, &cfg)
		}
		m, err := a.New(cfg)
		if err != nil {
			t.Fatalf("%s: %v", cfg.Self.ID, err)
		}
		p.nodes = append(p.nodes, &pumpNode{machine: m.(*static.Machine), wakeAt: protocol.Never})
	}
	for i := range p.nodes {
		p.must(i, &protocol.Input{Kind: protocol.Tick})
	}
	return p
}

// ask makes a request of node i with a priority of its own.
func (p *pump) ask(i int, priority int64) uint64 {
	p.t.Helper()
	return p.acquire(i, protocol.Input{Priority: priority, Fixed: true})
}

// acquire makes a request of node i as in says; Kind, Ref and Resource are filled in.
func (p *pump) acquire(i int, in protocol.Input) uint64 {
	p.t.Helper()
	p.lastRef++
	in.Kind, in.Ref, in.Resource = protocol.Acquire, p.lastRef, lock
	n := p.nodes[i]
	n.ref = in.Ref
	n.waiting = append(n.waiting, in.Ref)
	p.must(i, &in)
	return in.Ref
}

// leave lets node i, who must be inside, leave.
func (p *pump) leave(i int) {
	p.t.Helper()
	if p.inside != i {
		p.t.Fatalf("%s is not inside, %d is", p.name(i), p.inside)
	}
	ref := p.nodes[i].holding
	p.nodes[i].holding, p.inside = 0, -1
	p.must(i, &protocol.Input{Kind: protocol.Leave, Ref: ref})
}

// withdraw takes back a request that waits.
func (p *pump) withdraw(i int, ref uint64) {
	p.t.Helper()
	n := p.nodes[i]
	n.waiting = slices.DeleteFunc(n.waiting, func(r uint64) bool { return r == ref })
	p.must(i, &protocol.Input{Kind: protocol.Withdraw, Ref: ref})
}

// at plans an act of the test.
func (p *pump) at(t protocol.Time, do func()) {
	p.seq++
	p.events = append(p.events, pumpEvent{at: max(t, p.now), seq: p.seq, do: do})
}

// deliver hands over the oldest message from one node to another, whenever it
// would arrive.
func (p *pump) deliver(from, to int) {
	p.t.Helper()
	i := slices.IndexFunc(p.events, func(e pumpEvent) bool { return e.msg != nil && e.from == from && e.to == to })
	if i < 0 {
		p.t.Fatalf("no message from %s to %s is on its way", p.name(from), p.name(to))
	}
	p.take(i)
}

// settle runs until no message is on its way and no act planned. Wake-ups stay.
func (p *pump) settle() {
	p.t.Helper()
	for steps := 0; len(p.events) > 0; steps++ {
		if steps > 1_000_000 {
			p.t.Fatalf("messages go round without end")
		}
		p.take(p.next())
	}
}

// runUntil runs everything up to and including instant t: messages, acts, wake-ups.
func (p *pump) runUntil(t protocol.Time) {
	p.t.Helper()
	for {
		i, wake := p.next(), p.nextWake()
		switch {
		case wake >= 0 && p.nodes[wake].wakeAt <= t && (i < 0 || p.nodes[wake].wakeAt < p.events[i].at):
			p.now = max(p.now, p.nodes[wake].wakeAt)
			p.must(wake, &protocol.Input{Kind: protocol.Tick})
		case i >= 0 && p.events[i].at <= t:
			p.take(i)
		default:
			p.now = max(p.now, t)
			return
		}
	}
}

// next is the index of the next event, -1 if there is none.
func (p *pump) next() int {
	best := -1
	for i, e := range p.events {
		if best < 0 || e.at < p.events[best].at || e.at == p.events[best].at && e.seq < p.events[best].seq {
			best = i
		}
	}
	return best
}

// nextWake is the node that wants to be woken first, -1 if none does.
func (p *pump) nextWake() int {
	best := -1
	for i, n := range p.nodes {
		if n.wakeAt != protocol.Never && (best < 0 || n.wakeAt < p.nodes[best].wakeAt) {
			best = i
		}
	}
	return best
}

func (p *pump) take(i int) {
	p.t.Helper()
	e := p.events[i]
	p.events = slices.Delete(p.events, i, i+1)
	p.now = max(p.now, e.at)
	if e.do != nil {
		e.do()
		return
	}
	p.must(e.to, &protocol.Input{Kind: protocol.Receive, Message: e.msg})
}

// must steps a machine, which must accept the input.
func (p *pump) must(i int, in *protocol.Input) {
	p.t.Helper()
	if err := p.step(i, in); err != nil {
		p.t.Fatalf("%s at %d: %v", p.name(i), p.now, err)
	}
}

// step steps the machine of node i and carries out what follows.
func (p *pump) step(i int, in *protocol.Input) error {
	p.t.Helper()
	n := p.nodes[i]
	var out protocol.Output
	err := n.machine.Step(p.now+n.offset, in, &out)
	n.wakeAt = protocol.Never
	if out.WakeAt != protocol.Never {
		n.wakeAt = max(out.WakeAt-n.offset, p.now)
	}
	for k := range out.Messages {
		p.send(i, &out.Messages[k])
	}
	for _, g := range out.Grants {
		p.enter(i, g)
	}
	for _, d := range out.Denials {
		p.deny(i, d)
	}
	if err := n.machine.CheckInvariants(); err != nil {
		p.t.Fatalf("%s at %d: %v", p.name(i), p.now, err)
	}
	return err
}

func (p *pump) send(from int, m *protocol.Message) {
	to, err := strconv.Atoi(m.To.ID)
	if to--; err != nil || to < 0 || to >= len(p.nodes) || to == from {
		p.t.Fatalf("%s sends a %v to %q", p.name(from), m.Kind, m.To.ID)
	}
	c := *m // the slices belong to the machine until its next step
	c.Path, c.Wishes, c.Entries = slices.Clone(m.Path), slices.Clone(m.Wishes), slices.Clone(m.Entries)
	at := p.now
	if p.latency != nil {
		at += p.latency(from, to)
	}
	at = max(at, p.arrives[[2]int{from, to}])
	p.arrives[[2]int{from, to}] = at
	p.sent[m.Kind]++
	p.seq++
	p.events = append(p.events, pumpEvent{at: at, seq: p.seq, from: from, to: to, msg: &c})
}

func (p *pump) enter(i int, g protocol.Granted) {
	p.t.Helper()
	n := p.nodes[i]
	if !slices.Contains(n.waiting, g.Ref) {
		p.t.Fatalf("%s enters for %d, which does not wait", p.name(i), g.Ref)
	}
	if p.inside >= 0 {
		p.t.Fatalf("%s enters at %d while %s is inside", p.name(i), p.now, p.name(p.inside))
	}
	if g.Fence <= p.lastKey {
		p.t.Fatalf("%s enters with fence %d after %d", p.name(i), g.Fence, p.lastKey)
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(r uint64) bool { return r == g.Ref })
	p.inside, p.lastKey, n.holding = i, g.Fence, g.Ref
	e := pumpEntry{node: i, at: p.now, ref: g.Ref, fence: g.Fence, priority: g.Priority}
	p.entries = append(p.entries, e)
	if p.onEnter != nil {
		p.onEnter(e)
	}
}

func (p *pump) deny(i int, d protocol.Denial) {
	p.t.Helper()
	n := p.nodes[i]
	if !slices.Contains(n.waiting, d.Ref) {
		p.t.Fatalf("%s is denied %d, which does not wait", p.name(i), d.Ref)
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(r uint64) bool { return r == d.Ref })
	p.denials = append(p.denials, pumpDenial{node: i, at: p.now, ref: d.Ref, reason: d.Reason})
	if p.onDeny != nil {
		p.onDeny(i, d)
	}
}

// drain lets everybody who is inside leave at once until nobody waits, and returns
// who entered, in order.
func (p *pump) drain() (order []int) {
	p.t.Helper()
	first := len(p.entries)
	for p.settle(); p.inside >= 0; p.settle() {
		p.leave(p.inside)
	}
	for _, e := range p.entries[first:] {
		order = append(order, e.node)
	}
	for i, n := range p.nodes {
		if len(n.waiting) > 0 {
			p.t.Fatalf("%s waits for ever", p.name(i))
		}
	}
	return order
}

// counted is the number of messages so far.
func (p *pump) counted() (n int) {
	for _, c := range p.sent {
		n += c
	}
	return n
}

func (p *pump) name(i int) string { return strconv.Itoa(i + 1) }

// randomTree draws the parents of n participants, participant 0 being the root.
func randomTree(n int, below func(k int) int) []int {
	parents := []int{-1}
	for i := 1; i < n; i++ {
		parents = append(parents, below(i))
	}
	return parents
}

// TestPumpIsFIFO shows that a message that takes less does not pass one before it.
func TestPumpIsFIFO(t *testing.T) {
	p := newPump(t, Raymond, 2, nil, nil)
	delays := []protocol.Duration{10, 1}
	p.latency = func(_, _ int) protocol.Duration {
		d := delays[0]
		delays = append(delays[1:], d)
		return d
	}
	for range 2 {
		p.send(0, &protocol.Message{Kind: protocol.KindRequest, To: protocol.Node{ID: "2"}})
	}
	if a, b := p.events[0].at, p.events[1].at; a != 10 || b != 10 {
		t.Errorf("messages arrive at %d and %d, want both at 10", a, b)
	}
}
