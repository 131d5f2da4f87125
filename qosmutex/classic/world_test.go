package classic

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// tm is the latency of a message where a test does not say otherwise.
const tm = 10 * protocol.Millisecond

const crane = "crane"

// world is a group of participants in virtual time, with channels in order between
// each two of them. Messages travel encoded. It notes the first thing that must not
// be: two inside, a fence that does not rise, an error of Step, a broken invariant.
type world struct {
	now     protocol.Time
	names   []string
	nodes   []*node
	latency func(from, to int) protocol.Duration
	wires   map[[2]int]*wire
	seq     uint64
	manual  bool // nothing arrives but by deliver

	sent    [64]int // by kind
	counted int
	entries []entry
	inside  []int // participants
	leftAt  protocol.Time
	fence   uint64
	overlap bool // two may be inside: note, do not fail
	overlaps,
	waiting int
	tracing bool
	trace   []string
	failure error
	refused error // of the last step
	broken  error // what not even a forger may bring about: an invariant, an unreadable message
	decoder protocol.Decoder
	out     protocol.Output
	onEnter func(who int)
}

type node struct {
	m       protocol.Machine
	wakeAt  protocol.Time
	lastRef uint64
	refs    []uint64 // waiting
	inside  uint64   // the ref that is inside
	crashed bool
}

type wire struct {
	packets []packet
	last    protocol.Time // when the last one arrives
}

type packet struct {
	at   protocol.Time
	seq  uint64
	wire []byte
}

type entry struct {
	who   int
	id    protocol.RequestID
	fence uint64
	at    protocol.Time
	delay protocol.Duration // since the last leave
	sent  int               // messages counted until then
}

func letters(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%c", 'A'+i%26)
		if n > 26 {
			names[i] = fmt.Sprintf("n%03d", i)
		}
	}
	return names
}

func newWorld(a protocol.Algorithm, names []string, seed uint64) *world {
	return newWorldWith(a, names, seed, func(*protocol.Config) {})
}

// newWorldWith changes the configuration of everybody.
func newWorldWith(a protocol.Algorithm, names []string, seed uint64, change func(*protocol.Config)) *world {
	w := &world{
		names: names, wires: map[[2]int]*wire{},
		latency: func(int, int) protocol.Duration { return tm },
	}
	timing := protocol.LAN()
	timing.Hop = tm
	for i, id := range names {
		cfg := protocol.Config{
			Self: protocol.Node{ID: id, Incarnation: 1}, Priority: 5, Timing: timing, Members: names,
			Settings: protocol.Settings{Resources: []string{crane}}, FenceFloor: 100, Seed: seed*1000 + uint64(i),
		}
		change(&cfg)
		m, err := a.New(cfg)
		if err != nil {
			panic(err)
		}
		w.nodes = append(w.nodes, &node{m: m, wakeAt: protocol.Never})
		w.step(i, protocol.Input{Kind: protocol.Tick})
	}
	w.fence = 100
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf("at %d: %s", w.now, fmt.Sprintf(format, args...))
	}
}

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// step feeds one input to participant i and takes what follows.
func (w *world) step(i int, in protocol.Input) {
	n := w.nodes[i]
	if w.refused = n.m.Step(w.now, &in, &w.out); w.refused != nil {
		w.fail("%s: %v", w.names[i], w.refused)
	}
	if c, ok := n.m.(interface{ CheckInvariants() error }); ok {
		if err := c.CheckInvariants(); err != nil {
			w.broken = fmt.Errorf("%s: %w", w.names[i], err)
			w.fail("%v", w.broken)
		}
	}
	n.wakeAt = w.out.WakeAt
	for k := range w.out.Messages {
		w.send(i, &w.out.Messages[k])
	}
	grants := slices.Clone(w.out.Grants)
	for _, d := range w.out.Denials {
		w.deny(i, d)
	}
	for _, g := range grants {
		w.enter(i, g)
	}
}

func (w *world) send(from int, m *protocol.Message) {
	to := slices.Index(w.names, m.To.ID)
	w.sent[m.Kind]++
	if m.Kind.Counted() {
		w.counted++
	}
	w.note("%s", describe(m))
	p := [2]int{from, to}
	if w.wires[p] == nil {
		w.wires[p] = &wire{}
	}
	c := w.wires[p]
	w.seq++
	c.last = max(c.last, w.now+w.latency(from, to))
	c.packets = append(c.packets, packet{c.last, w.seq, protocol.AppendMessage(nil, m)})
}

// describe writes a message as the scenarios have it: D→C Request ⟨D,1⟩, and what it
// says beside that.
func describe(m *protocol.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s→%s %v", m.From, m.To, m.Kind)
	if !m.ID.IsZero() {
		fmt.Fprintf(&b, " ⟨%s,%d⟩", m.ID.Node, m.ID.Clock)
	}
	switch m.Kind {
	case protocol.KindRequest:
		if m.Priority != 0 {
			fmt.Fprintf(&b, " p%d", m.Priority)
		}
	case protocol.KindToken:
		if m.Number != 0 {
			fmt.Fprintf(&b, " number %d, %d idle", m.Number, m.Hops)
		}
	}
	for _, n := range m.Path {
		fmt.Fprintf(&b, " for %s", n)
	}
	for i, v := range m.Wishes {
		word := []string{" served ", ", "}[min(i, 1)]
		fmt.Fprintf(&b, "%s%s:%d", word, v.ID.Node, v.ID.Clock)
		if v.Priority != 0 {
			fmt.Fprintf(&b, " (queued %d)", v.Priority)
		}
	}
	if m.Fences.Next > 100 {
		fmt.Fprintf(&b, " fence %d", m.Fences.Next)
	}
	return b.String()
}

func (w *world) enter(i int, g protocol.Granted) {
	n := w.nodes[i]
	w.note("%s enters with fence %d", w.names[i], g.Fence)
	if len(w.inside) > 0 {
		w.overlaps++
		if !w.overlap {
			w.fail("%s enters while %s is inside", w.names[i], w.names[w.inside[0]])
		}
	}
	if g.Fence <= w.fence && w.overlaps == 0 {
		w.fail("%s enters with fence %d after %d", w.names[i], g.Fence, w.fence)
	}
	k := slices.Index(n.refs, g.Ref)
	if k < 0 {
		w.fail("%s: grant of %d, which does not wait", w.names[i], g.Ref)
		return
	}
	n.refs = slices.Delete(n.refs, k, k+1)
	w.waiting--
	n.inside = g.Ref
	w.inside = append(w.inside, i)
	w.fence = max(w.fence, g.Fence)
	w.entries = append(w.entries, entry{i, g.ID, g.Fence, w.now, w.now - w.leftAt, w.counted})
	if w.onEnter != nil {
		w.onEnter(i)
	}
}

// deny takes back a request that was refused. That is for a Try alone.
func (w *world) deny(i int, d protocol.Denial) {
	n := w.nodes[i]
	n.refs = slices.DeleteFunc(n.refs, func(ref uint64) bool { return ref == d.Ref })
	w.waiting--
	w.note("%s is denied: %v", w.names[i], d.Reason)
	if d.Reason != protocol.ReasonBusy {
		w.fail("%s: denied %v", w.names[i], d.Reason)
	}
}

// ask asks at participant i, with its own priority.
func (w *world) ask(i int) { w.acquire(i, protocol.Input{}) }

func (w *world) acquire(i int, in protocol.Input) {
	n := w.nodes[i]
	n.lastRef++
	w.waiting++
	n.refs = append(n.refs, n.lastRef)
	in.Kind, in.Ref, in.Resource = protocol.Acquire, n.lastRef, crane
	w.step(i, in)
}

func (w *world) leave(i int) {
	n := w.nodes[i]
	ref := n.inside
	n.inside = 0
	w.inside = slices.DeleteFunc(w.inside, func(j int) bool { return i == j })
	w.leftAt = w.now
	w.step(i, protocol.Input{Kind: protocol.Leave, Ref: ref})
}

// withdraw takes back the k-th request that waits at participant i.
func (w *world) withdraw(i, k int) {
	n := w.nodes[i]
	ref := n.refs[k]
	n.refs = slices.Delete(n.refs, k, k+1)
	w.waiting--
	w.step(i, protocol.Input{Kind: protocol.Withdraw, Ref: ref})
}

// next is when the next message arrives, and on which wire.
func (w *world) next() (at protocol.Time, on [2]int, ok bool) {
	at = protocol.Never
	var seq uint64
	for p, c := range w.wires {
		if len(c.packets) == 0 || w.manual {
			continue
		}
		if f := c.packets[0]; !ok || f.at < at || f.at == at && f.seq < seq {
			at, seq, on, ok = f.at, f.seq, p, true
		}
	}
	return at, on, ok
}

// advance lets the next thing happen, not after until. Messages come before timers.
func (w *world) advance(until protocol.Time) bool {
	at, on, ok := w.next()
	who := -1
	for i, n := range w.nodes {
		if !n.crashed && n.wakeAt < at {
			at, who, ok = n.wakeAt, i, true
		}
	}
	if !ok || at > until {
		return false
	}
	w.now = max(w.now, at)
	if who >= 0 {
		w.step(who, protocol.Input{Kind: protocol.Tick})
	} else {
		w.deliver(on)
	}
	return true
}

func (w *world) deliver(on [2]int) {
	c := w.wires[on]
	p := c.packets[0]
	c.packets = c.packets[1:]
	if w.nodes[on[1]].crashed {
		return
	}
	var m protocol.Message
	if err := w.decoder.Decode(p.wire, &m); err != nil {
		w.broken = err
		w.fail("%v", err)
		return
	}
	w.step(on[1], protocol.Input{Kind: protocol.Receive, Message: &m})
}

// quiet reports whether no message is on its way.
func (w *world) quiet() bool {
	for _, c := range w.wires {
		if len(c.packets) > 0 {
			return false
		}
	}
	return true
}

// settle goes on until nothing is on its way and nobody waits whom a timer could
// still help.
func (w *world) settle() {
	for range 1_000_000 {
		if w.failure != nil || w.quiet() && (w.waiting == 0 || len(w.inside) > 0) || !w.advance(protocol.Never-1) {
			return
		}
	}
	w.fail("does not settle")
}

// serve has everybody leave after hold until nobody waits. It fails if that does not
// happen within a number of events that no correct run needs.
func (w *world) serve(hold protocol.Duration) {
	for range 200_000 {
		if w.failure != nil {
			return
		}
		if len(w.inside) > 0 {
			w.pass(hold)
			w.leave(w.inside[0])
			continue
		}
		if w.waiting == 0 {
			return
		}
		if !w.advance(protocol.Never - 1) {
			w.fail("%d wait, and nothing will ever happen", w.waiting)
			return
		}
	}
	w.fail("%d still wait", w.waiting)
}

// pass lets time pass.
func (w *world) pass(d protocol.Duration) {
	until := w.now + d
	for w.failure == nil && w.advance(until) {
	}
	w.now = until
}
