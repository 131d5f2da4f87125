package padme

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// world runs a few machines on a network that the test controls: messages wait
// in one channel for each ordered pair of participants until they are delivered.
// After every step the invariants are checked, each machine's own and those that
// can only be seen from outside.
type world struct {
	now      protocol.Time
	timing   protocol.Timing
	fanout   int
	settings protocol.Settings
	nodes    map[string]*node
	order    []string // names in order of creation
	channels map[[2]string][]protocol.Message
	pending  [][2]string // one mark for each message in flight, in order of sending
	held     map[[2]string]bool
	trace    []string
	quiet    bool // do not trace
	fences   map[string]uint64
	nextRef  uint64
	nextInc  uint64
	failure  error
}

// node is one participant and its application.
type node struct {
	name    string
	machine *Machine
	out     protocol.Output
	wakeAt  protocol.Time
	drift   float64 // its clock runs at 1+drift
	inside  map[string]protocol.Granted
	refs    []request // waiting or inside, in order
	crashed bool
	offline bool
}

type request struct {
	ref      uint64
	resource string
}

func newWorld() *world {
	t := protocol.LAN()
	return &world{
		now: 10 * protocol.Second, timing: t, nodes: map[string]*node{}, channels: map[[2]string][]protocol.Message{},
		held: map[[2]string]bool{}, fences: map[string]uint64{}, fanout: 2,
		settings: protocol.Settings{Resources: []string{"x"}},
	}
}

func (w *world) add(name string, priority int64, parent string, found bool) *node {
	w.nextInc++
	m, err := New(protocol.Config{
		Self: protocol.Node{ID: name, Incarnation: w.nextInc}, Priority: priority, Timing: w.timing,
		Settings: w.settings, Found: found, AtOnce: found, Parent: parent, Fanout: w.fanout,
	})
	if err != nil {
		panic(err)
	}
	n := &node{name: name, machine: m, inside: map[string]protocol.Granted{}}
	w.nodes[name] = n
	if !slices.Contains(w.order, name) {
		w.order = append(w.order, name)
	}
	w.step(n, &protocol.Input{Kind: protocol.Tick})
	return n
}

func (w *world) clock(n *node) protocol.Time {
	return w.now + protocol.Time(n.drift*float64(w.now))
}

// step feeds one input and applies what follows in the order of the contract.
func (w *world) step(n *node, in *protocol.Input) error {
	if n.crashed {
		return nil
	}
	err := n.machine.Step(w.clock(n), in, &n.out)
	for _, l := range n.out.Losses {
		w.log("%s loses %s fence %d", n.name, l.Resource, l.Fence)
		delete(n.inside, l.Resource)
		n.forget(l.Ref)
	}
	for i := range n.out.Messages {
		w.send(n, &n.out.Messages[i])
	}
	for _, g := range n.out.Grants {
		w.log("%s enters %s fence %d", n.name, g.Resource, g.Fence)
		w.entered(n, g)
	}
	for _, d := range n.out.Denials {
		w.log("%s is refused %s: %v", n.name, d.Resource, d.Reason)
		n.forget(d.Ref)
	}
	n.wakeAt = n.out.WakeAt
	w.check(n)
	return err
}

func (n *node) forget(ref uint64) {
	n.refs = slices.DeleteFunc(n.refs, func(r request) bool { return r.ref == ref })
}

func (w *world) entered(n *node, g protocol.Granted) {
	for _, o := range w.nodes {
		if h, ok := o.inside[g.Resource]; ok && w.valid(o) {
			w.fail("%s enters %s (fence %d) while %s is inside with fence %d", n.name, g.Resource, g.Fence, o.name, h.Fence)
		}
	}
	if g.Fence <= w.fences[g.Resource] {
		w.fail("%s enters %s with fence %d after fence %d", n.name, g.Resource, g.Fence, w.fences[g.Resource])
	}
	if !w.valid(n) {
		w.fail("%s enters %s without a valid session", n.name, g.Resource)
	}
	w.fences[g.Resource] = g.Fence
	n.inside[g.Resource] = g
}

// valid reports whether holds of n pass Check now, on n's own clock.
func (w *world) valid(n *node) bool { return w.clock(n) < n.machine.ValidUntil() && !n.crashed }

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.log("VIOLATION %v", w.failure)
	}
}

func (w *world) check(n *node) {
	if err := n.machine.CheckInvariants(); err != nil {
		w.fail("%s: %v", n.name, err)
	}
}

func (w *world) send(n *node, msg *protocol.Message) {
	if n.offline {
		return
	}
	c := *msg
	c.Path, c.Entries = slices.Clone(msg.Path), slices.Clone(msg.Entries)
	for _, name := range w.order {
		if msg.To.IsZero() && name != n.name || msg.To.ID == name {
			key := [2]string{n.name, name}
			w.channels[key] = append(w.channels[key], c)
			w.pending = append(w.pending, key)
		}
	}
}

// deliver hands over the oldest message of a channel.
func (w *world) deliver(key [2]string) {
	msg := w.channels[key][0]
	w.channels[key] = w.channels[key][1:]
	i := slices.Index(w.pending, key)
	w.pending = slices.Delete(w.pending, i, i+1)
	to := w.nodes[key[1]]
	if to.crashed || to.offline || !msg.To.IsZero() && msg.To != to.machine.self {
		return
	}
	if msg.Kind.Counted() {
		w.log("%s→%s %s", key[0], key[1], describe(&msg))
	}
	if err := w.step(to, &protocol.Input{Kind: protocol.Receive, Message: &msg}); err != nil && msg.Kind.Counted() {
		w.log("%s drops it: %v", key[1], err)
	}
}

// settle delivers everything that is not held back, oldest first.
func (w *world) settle() {
	for range 100_000 {
		i := slices.IndexFunc(w.pending, func(k [2]string) bool { return !w.held[k] })
		if i < 0 {
			return
		}
		w.deliver(w.pending[i])
	}
	w.fail("no end of messages")
}

// advance lets time pass, with every wake-up in its turn.
func (w *world) advance(d protocol.Duration) {
	end := w.now + d
	for {
		w.settle()
		next := end
		for _, name := range w.order {
			n := w.nodes[name]
			if n.crashed {
				continue
			}
			if at := protocol.Time(float64(n.wakeAt) / (1 + n.drift)); n.wakeAt < protocol.Never && at < next {
				next = at
			}
		}
		w.now = max(w.now, next)
		for _, name := range w.order {
			if n := w.nodes[name]; !n.crashed && w.clock(n) >= n.wakeAt {
				w.step(n, &protocol.Input{Kind: protocol.Tick})
			}
		}
		if w.now >= end {
			w.settle()
			return
		}
		if next == w.now {
			w.now++
		}
	}
}

func (w *world) log(format string, args ...any) {
	if !w.quiet {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// flush returns what was traced since the last flush.
func (w *world) flush() string {
	s := strings.Join(w.trace, "\n")
	w.trace = w.trace[:0]
	if s != "" {
		s += "\n"
	}
	return s
}

func describe(m *protocol.Message) string {
	id := fmt.Sprintf("%s,c%d", m.ID.Node.ID, m.ID.Clock)
	switch m.Kind {
	case protocol.KindRequest:
		s := fmt.Sprintf("Request ⟨%s,p%d,c%d⟩", m.ID.Node.ID, m.Priority, m.ID.Clock)
		if m.Resource != "x" {
			s += " " + m.Resource
		}
		if m.Flags&protocol.FlagTry != 0 {
			s += " try"
		}
		return s
	case protocol.KindReply:
		return fmt.Sprintf("Reply ⟨%s⟩ %s grant %d fences %d–%d", id, m.Resource, m.Grant.Number, m.Fences.Next, m.Fences.End-1)
	case protocol.KindRelease:
		var es []string
		for _, e := range m.Entries {
			es = append(es, fmt.Sprintf("(%s,c%d)", e.ID.Node.ID, e.ID.Clock))
		}
		s := fmt.Sprintf("Release ⟨%s⟩ %s grant %d", strings.Join(es, " "), m.Resource, m.Grant.Number)
		if m.Flags&protocol.FlagReturned != 0 {
			s += " returned"
		}
		if m.Flags&protocol.FlagRepeated != 0 {
			s += " repeated"
		}
		return s
	case protocol.KindDeny:
		return fmt.Sprintf("Deny ⟨%s⟩ %v", id, m.Reason)
	case protocol.KindReport:
		return fmt.Sprintf("Report grant %d: %s", m.Grant.Number, [...]string{"", "never had it", "holding it", "passed it to " + m.Peer.ID}[m.Verdict])
	case protocol.KindSync:
		return fmt.Sprintf("Sync ⟨%s⟩ %s grant %d", id, m.Resource, m.Grant.Number)
	}
	return fmt.Sprintf("%v ⟨%s⟩", m.Kind, id)
}
