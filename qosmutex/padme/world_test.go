package padme

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// world runs a few machines on a network that the test controls: messages wait
// in one channel for each ordered pair of participants until they are delivered.
// After every step the invariants are checked, each machine's own and those that
// can only be seen from outside.
type world struct {
	now        protocol.Time
	timing     protocol.Timing
	fanout     int
	fresh      bool // the register is
	trust      bool // of everybody
	record     record
	maxWaiting int
	maxIdle    int
	settings   protocol.Settings
	nodes      map[string]*node
	order      []string // names in order of creation
	channels   map[[2]string][]protocol.Message
	pending    [][2]string // one mark for each message in flight, in order of sending
	held       map[[2]string]bool
	resumed    protocol.Time // when a link was held last
	cyclic     protocol.Time // since when there is a cycle of parents; 0: there is none
	trace      []string
	endless    bool // messages came without end: nothing more is delivered
	quiet      bool // do not trace
	joins      int  // that were sent
	verbose    bool // trace the upkeep of the tree, too
	explains   bool // trace decisions, and how tokens came
	decisions  map[protocol.Grant]protocol.Decision
	manual     bool // nothing is delivered unless a line says so
	fences     map[string]uint64
	nextRef    uint64
	nextInc    uint64
	failure    error
	stepped    func(n *node) // after each step; nil: nothing
}

// node is one participant and its application.
type node struct {
	name     string
	priority int64 // at its start
	machine  *Machine
	out      protocol.Output
	wakeAt   protocol.Time
	base     protocol.Time // what its clock showed
	baseAt   protocol.Time // at this instant of the world
	drift    float64       // since when it runs at 1+drift
	inside   map[string]protocol.Granted
	refs     []request       // waiting or inside, in order
	noted    []protocol.Held // that its process of before was inside of
	befores  []*node         // processes before it of which somebody may go by what they were inside of
	former   protocol.Former // the session of the last one
	invalid  uint64          // messages dropped as invalid that a test sent on purpose
	excused  uint64          // holds that it lost unconfirmed while a link was held, or had just been
	crashed  bool
	offline  bool
	paused   bool // takes no steps; what is sent to it waits
}

type request struct {
	ref      uint64
	resource string
	inside   bool
}

func newWorld() *world {
	t := protocol.LAN()
	return &world{
		now: 10 * protocol.Second, timing: t, nodes: map[string]*node{}, channels: map[[2]string][]protocol.Message{},
		held: map[[2]string]bool{}, decisions: map[protocol.Grant]protocol.Decision{}, fences: map[string]uint64{}, fanout: 2,
		settings: protocol.Settings{Resources: []string{"x"}},
	}
}

func (w *world) add(name string, priority int64, parent string, first bool) *node {
	return w.start(protocol.Config{}, name, priority, parent, first)
}

// goOn starts a participant again, which goes on with what its process of before was inside of.
func (w *world) goOn(n *node) {
	was, former := n, protocol.Former{Incarnation: n.machine.self.Incarnation, Session: n.machine.session.number}
	if former.Session == 0 && len(n.befores) > 0 && n.machine.role != protocol.Root { // what was noted still stands
		was, former = n.befores[len(n.befores)-1], n.former
	}
	var cfg protocol.Config
	if former.Session != 0 {
		cfg.Former, cfg.Held = former, w.noted(was)
	}
	next := w.start(cfg, n.name, n.priority, n.machine.under, false)
	next.befores = n.befores
	if cfg.Held != nil {
		next.noted, next.befores, next.former = cfg.Held, append(slices.DeleteFunc(slices.Clone(n.befores), func(b *node) bool { return b == was }), was), former
	}
}

func (w *world) start(cfg protocol.Config, name string, priority int64, parent string, first bool) *node {
	w.nextInc++
	m, err := New(protocol.Config{
		Former: cfg.Former, Held: cfg.Held,
		Self: protocol.Node{ID: name, Incarnation: w.nextInc}, Priority: priority, Timing: w.timing,
		Settings: w.settings, Candidate: true, Parent: parent, Fanout: w.fanout, MaxWaiting: w.maxWaiting, MaxIdle: w.maxIdle,
		TrustSuspect: w.trust,
	})
	if err != nil {
		panic(err)
	}
	n := &node{name: name, priority: priority, machine: m, inside: map[string]protocol.Granted{}}
	n.out.Explain = true
	// Clocks have nothing to do with each other: instants are not comparable.
	n.base, n.baseAt = w.now+protocol.Time(w.nextInc*7919)*protocol.Millisecond, w.now
	if old := w.nodes[name]; old != nil {
		n.drift = old.drift
		n.noted = w.noted(old)
	}
	w.nodes[name] = n
	if !slices.Contains(w.order, name) {
		w.order = append(w.order, name)
	}
	w.step(n, &protocol.Input{Kind: protocol.Tick})
	if first {
		w.create(n)
	}
	return n
}

// names are the resources that are used.
func (w *world) names() []string {
	names := slices.Clone(w.settings.Resources)
	if w.settings.Open {
		names = append(names, "o1", "o2", "o3", "o4", "o5")
	}
	return names
}

// noted is what a process was inside of when it ended, as its successor is told.
func (w *world) noted(old *node) (list []protocol.Held) {
	for _, resource := range slices.Sorted(maps.Keys(old.inside)) {
		w.nextRef++
		g := old.inside[resource]
		h := protocol.Held{Ref: w.nextRef, Resource: resource, Fence: g.Fence, Priority: g.Priority}
		if e := old.machine.ownByRef(g.Ref); e != nil {
			h.Client = e.client
		}
		list = append(list, h)
	}
	return list
}

// clock is what the clock of n shows.
func (w *world) clock(n *node) protocol.Time {
	return n.base + protocol.Time(float64(w.now-n.baseAt)*(1+n.drift))
}

// due is the instant of the world at which the clock of n shows its wake-up time.
func (w *world) due(n *node) protocol.Time {
	if n.wakeAt >= protocol.Never {
		return protocol.Never
	}
	at := n.baseAt + protocol.Time(float64(n.wakeAt-n.base)/(1+n.drift))
	for n.base+protocol.Time(float64(at-n.baseAt)*(1+n.drift)) < n.wakeAt {
		at++
	}
	return at
}

// setDrift lets the clock of n run at another rate from now on.
func (w *world) setDrift(n *node, drift float64) {
	n.base, n.baseAt, n.drift = w.clock(n), w.now, drift
}

// step feeds one input and applies what follows in the order of the contract.
func (w *world) step(n *node, in *protocol.Input) error {
	if n.crashed || n.paused {
		return nil
	}
	err := n.machine.Step(w.clock(n), in, &n.out)
	for _, l := range n.out.Losses {
		w.log("%s loses %s fence %d", n.name, l.Resource, l.Fence)
		if n.inside[l.Resource].Until != 0 && (w.holding() || w.now < w.resumed+w.timing.TTL/2) {
			n.excused++
		}
		delete(n.inside, l.Resource)
		n.forget(l.Ref)
	}
	for i := range n.out.Messages {
		w.send(n, &n.out.Messages[i])
	}
	for _, ref := range n.out.Confirmed {
		n.confirmed(ref)
	}
	w.decided(n)
	for _, g := range n.out.Grants {
		does := "enters"
		if slices.ContainsFunc(n.noted, func(h protocol.Held) bool { return h.Ref == g.Ref }) {
			does = "goes on with"
		}
		how := ""
		if w.explains {
			how = " (" + g.How.String() + ")"
		}
		w.log("%s %s %s fence %d%s", n.name, does, g.Resource, g.Fence, how)
		w.entered(n, g)
		w.explained(n, &g)
	}
	for _, d := range n.out.Denials {
		w.log("%s is refused %s: %v", n.name, d.Resource, d.Reason)
		if d.Reason == protocol.ReasonClosed && !n.machine.departing {
			w.fail("%s does not depart, and is told that it does", n.name)
		}
		n.forget(d.Ref)
	}
	n.wakeAt = n.out.WakeAt
	w.check(n)
	if w.stepped != nil {
		w.stepped(n)
	}
	w.followRecord(n)
	return err
}

// holding reports whether messages are held back on a link.
func (w *world) holding() bool { return slices.Contains(slices.Collect(maps.Values(w.held)), true) }

func (n *node) forget(ref uint64) {
	n.refs = slices.DeleteFunc(n.refs, func(r request) bool { return r.ref == ref })
}

func (w *world) send(n *node, msg *protocol.Message) {
	if n.offline {
		return
	}
	if msg.Kind == protocol.KindJoin {
		w.joins++
	}
	c := *msg
	c.Path, c.Entries = slices.Clone(msg.Path), slices.Clone(msg.Entries)
	c.Tokens, c.Sessions = slices.Clone(msg.Tokens), slices.Clone(msg.Sessions)
	c.Schedule = slices.Clone(msg.Schedule)
	c.Settings.Resources = slices.Clone(msg.Settings.Resources)
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
	if msg.Kind.Counted() || w.verbose {
		w.log("%s→%s %s", key[0], key[1], describe(&msg))
	}
	if err := w.step(to, &protocol.Input{Kind: protocol.Receive, Message: &msg}); err != nil && (msg.Kind.Counted() || w.verbose) {
		w.log("%s drops it: %v", key[1], err)
	}
}

// disorder treats the oldest message of a channel as a network may: it is lost, comes
// twice, or later than those that were sent after it.
func (w *world) disorder(how string, key [2]string) {
	if len(w.channels[key]) == 0 {
		return
	}
	msg := w.channels[key][0]
	if how != "lose" {
		w.channels[key] = append(w.channels[key], msg)
		w.pending = append(w.pending, key)
	}
	if how == "repeat" {
		w.deliver(key)
		return
	}
	w.channels[key] = w.channels[key][1:]
	w.pending = slices.Delete(w.pending, slices.Index(w.pending, key), slices.Index(w.pending, key)+1)
}

// settle delivers everything that is not held back, oldest first.
func (w *world) settle() {
	for range 100_000 {
		i := slices.IndexFunc(w.pending, func(k [2]string) bool { return !w.held[k] && !w.nodes[k[1]].paused })
		if i < 0 || w.endless {
			return
		}
		w.deliver(w.pending[i])
	}
	w.endless, w.trace = true, w.trace[:min(len(w.trace), 500)] // nobody reads more
	w.fail("no end of messages")
}

// advance lets time pass, with every wake-up in its turn. With deliver, each
// message arrives in the instant in which it is sent.
func (w *world) advance(d protocol.Duration, deliver bool) {
	end := w.now + d
	for {
		if deliver {
			w.settle()
		}
		next := end
		if at := w.takeoverAt(); at > w.now { // else nobody can take over yet
			next = min(next, at)
		}
		for _, name := range w.order {
			if n := w.nodes[name]; !n.crashed && !n.paused {
				next = min(next, w.due(n))
			}
		}
		w.now = max(w.now, next)
		for _, name := range w.order {
			if n := w.nodes[name]; !n.crashed && !n.paused && w.now >= w.due(n) {
				w.step(n, &protocol.Input{Kind: protocol.Tick})
			}
		}
		w.takeOver()
		if w.now >= end {
			if deliver {
				w.settle()
			}
			return
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
		if m.Client != "" {
			s += " for " + m.Client
		}
		if m.Resource != "x" {
			s += " " + m.Resource
		}
		if m.Flags&protocol.FlagTry != 0 {
			s += " try"
		}
		if m.Within > 0 {
			s += fmt.Sprintf(" within %v", time.Duration(m.Within))
		}
		return s
	case protocol.KindReply:
		s := fmt.Sprintf("Reply ⟨%s⟩ %s grant %d fences %d–%d", id, m.Resource, m.Grant.Number, m.Fences.Next, m.Fences.End-1)
		if m.Flags&protocol.FlagDirect != 0 {
			s += " direct"
		}
		if len(m.Schedule) > 0 {
			s += " then ⟨" + scheduled(m) + "⟩"
		}
		return s
	case protocol.KindSchedule:
		return fmt.Sprintf("Schedule ⟨%s⟩ %s grant %d", scheduled(m), m.Resource, m.Grant.Number)
	case protocol.KindRelease:
		var es []string
		for _, e := range m.Entries {
			es = append(es, fmt.Sprintf("(%s,c%d)", e.ID.Node.ID, e.ID.Clock))
		}
		s := fmt.Sprintf("Release ⟨%s⟩ %s grant %d", strings.Join(es, " "), m.Resource, m.Grant.Number)
		if m.Flags&protocol.FlagRetain != 0 {
			s += " retained"
		}
		if m.Flags&protocol.FlagReturned != 0 {
			s += " returned"
		}
		if m.Flags&protocol.FlagRepeated != 0 {
			s += " repeated"
		}
		if m.Flags&protocol.FlagDirect != 0 {
			s += " was sent on"
		}
		return s
	case protocol.KindDeny:
		return fmt.Sprintf("Deny ⟨%s⟩ %v", id, m.Reason)
	case protocol.KindReport:
		return fmt.Sprintf("Report grant %d: %s", m.Grant.Number, [...]string{"", "never had it", "holding it", "passed it to " + m.PassedTo.ID}[m.Verdict])
	case protocol.KindSync:
		return fmt.Sprintf("Sync ⟨%s⟩ %s grant %d", id, m.Resource, m.Grant.Number)
	}
	return fmt.Sprintf("%v ⟨%s⟩", m.Kind, id)
}

// scheduled says what comes next.
func scheduled(m *protocol.Message) string {
	var all []string
	for i := range m.Schedule {
		s := &m.Schedule[i]
		all = append(all, fmt.Sprintf("%s,c%d grant %d fence %d", s.ID.Node.ID, s.ID.Clock, s.Number, s.Fence))
	}
	return strings.Join(all, "; ")
}
