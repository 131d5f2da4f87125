package explore

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// world is one state. It is never changed once it has been visited: apply works on
// a copy, which shares machines and messages with the original until they change.
type world struct {
	cfg      *Config
	now      protocol.Time
	nodes    []node
	channels [][]flight // from·n + to, oldest first
	fence    uint64     // of the last entry
	record   record     // without Config.Register
	register register   // with it
	budget   [kindEnd]int8
	events
	broken  bool             // something has gone wrong in this run
	healed  bool             // nothing goes wrong any more, and nobody asks
	out     *protocol.Output // reused by every step
	trace   func(format string, args ...any)
	failure error
}

// events are what the last action led to, besides a state.
type events struct {
	moved     bool // somebody who is inside has another parent
	appointed bool // somebody has become the root
}

// node is one participant with its application.
type node struct {
	machine machine
	own     bool // the machine is this world's alone
	flags   nodeFlags
	runs    uint8 // how often it was started
	asked   uint8 // requests so far; the number of the last is its Ref
	state   appState
	until   protocol.Time      // inside: the hold ends then; 0: it lasts as long as the session
	gone    protocol.RequestID // withdrawn last
	parent  protocol.Node
	role    protocol.Role
}

type nodeFlags uint16

const (
	crashed nodeFlags = 1 << iota
	offline
	paused
	departed // or about to
	unheard  // its next request to the register has no answer
	late     // its next write is given up
	owed     // it has asked the register, and hears nothing
)

type appState uint8

const (
	idle appState = iota
	waits
	inside
)

// flight is a message on its way.
type flight struct {
	msg  *protocol.Message // shared and never changed
	sent protocol.Time
}

func (n *node) is(f nodeFlags) bool { return n.flags&f != 0 }

// newWorld makes the participants and lets them find their places.
func newWorld(cfg *Config) (*world, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := len(cfg.Parents)
	w := &world{cfg: cfg, now: 10 * tick, nodes: make([]node, n), channels: make([][]flight, n*n), out: &protocol.Output{}}
	for i := range n {
		w.start(i)
		w.settle()
	}
	for range Patience {
		if w.quiet() && w.checkAtRest() == nil {
			break
		}
		w.tick()
		w.settle()
	}
	if err := w.checkAtRest(); w.failure != nil || err != nil {
		return nil, fmt.Errorf("explore: the tree does not come about: %w", firstError(w.failure, err))
	}
	for k, most := range cfg.Budget {
		w.budget[k] = int8(most)
	}
	return w, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// start begins a participant's next run.
func (w *world) start(i int) {
	n := &w.nodes[i]
	n.runs++
	n.flags, n.state = 0, idle
	cfg := protocol.Config{
		Self: w.self(i), Priority: int64(i), Timing: timing, Fanout: w.cfg.fanout(), Candidate: w.able(i),
		Settings: protocol.Settings{Models: w.cfg.Models, Resources: []string{resource}},
	}
	if p := w.cfg.Parents[i]; p >= 0 && !w.cfg.Adaptive {
		cfg.Parent = letter(p)
	}
	m, err := w.newMachine(i, cfg)
	if err != nil {
		w.fail("%s cannot start: %v", letter(i), err)
		return
	}
	n.machine, n.own = m, true
	w.step(i, &protocol.Input{Kind: protocol.Tick})
	if i == 0 && n.runs == 1 && !w.cfg.Register {
		w.create()
	}
}

// able reports whether participant i can be the root.
func (w *world) able(i int) bool { return i == 0 || w.cfg.Adaptive }

// anyAble reports whether somebody lives who can be the root.
func (w *world) anyAble() bool {
	for i := range w.nodes {
		if w.able(i) && !w.nodes[i].is(crashed|departed) {
			return true
		}
	}
	return false
}

// self is the name of participant i in its present run.
func (w *world) self(i int) protocol.Node {
	return protocol.Node{ID: letter(i), Incarnation: uint64(w.nodes[i].runs)}
}

// copy returns a world that may be changed, with another output for its steps.
func (w *world) copy(out *protocol.Output) *world {
	c := *w
	c.out, c.events = out, events{}
	c.nodes = slices.Clone(w.nodes)
	for i := range c.nodes {
		c.nodes[i].own = false
	}
	c.channels = slices.Clone(w.channels)
	for i, ch := range c.channels {
		c.channels[i] = slices.Clip(ch)
	}
	return &c
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

// step feeds one input to participant i and applies what follows, in the order of
// the contract of [protocol.Output].
func (w *world) step(i int, in *protocol.Input) {
	n := &w.nodes[i]
	if !n.own {
		n.machine, n.own = twin(n.machine), true
	}
	if err := w.run(i, in, w.out); err != nil {
		w.log("  %s drops it: %v", letter(i), err)
	}
	w.follow(i)
}

// follow applies the output of a step.
func (w *world) follow(i int) {
	n, out := &w.nodes[i], w.out
	for _, l := range out.Losses {
		w.log("  %s loses its hold of fence %d", letter(i), l.Fence)
		n.state = idle
	}
	var echoes []*protocol.Message
	for k := range out.Messages {
		msg := clone(&out.Messages[k])
		if msg.To == msg.From {
			echoes = append(echoes, msg)
			continue
		}
		w.send(i, msg)
	}
	if len(out.Confirmed) > 0 {
		w.log("  %s is confirmed", letter(i))
		n.until = 0
	}
	for _, g := range out.Grants {
		w.log("  %s enters with fence %d", letter(i), g.Fence)
		w.entered(i, g)
	}
	for _, d := range out.Denials {
		w.log("  %s is refused: %v", letter(i), d.Reason)
		n.state = idle
	}
	parent, role := n.machine.Parent(), w.roleOf(i)
	w.moved = w.moved || n.state == inside && n.parent != parent
	if role == protocol.Root && n.role != role {
		w.log("  %s is the root", letter(i))
		w.appointed = true
	}
	n.parent, n.role = parent, role
	w.check(i)
	if w.cfg.Register {
		w.goOn(i)
	} else {
		w.obey(i)
	}
	for _, msg := range echoes {
		if !n.is(offline) && w.failure == nil {
			w.step(i, &protocol.Input{Kind: protocol.Receive, Message: msg})
		}
	}
}

func (w *world) roleOf(i int) protocol.Role {
	role, _ := w.nodes[i].machine.Term()
	return role
}

// run steps the machine. A panic is a broken invariant.
func (w *world) run(i int, in *protocol.Input, out *protocol.Output) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("%s panics: %v", letter(i), p)
		}
	}()
	err = w.nodes[i].machine.Step(w.now, in, out)
	if in.Kind != protocol.Suspect { // a machine need not know it
		w.checkError(i, err)
	}
	return err
}

// clone makes the world's own copy of a message, whose slices are the machine's.
func clone(msg *protocol.Message) *protocol.Message {
	c := *msg
	c.Path, c.Entries = slices.Clone(msg.Path), slices.Clone(msg.Entries)
	c.Tokens, c.Sessions = slices.Clone(msg.Tokens), slices.Clone(msg.Sessions)
	c.Schedule = slices.Clone(msg.Schedule)
	return &c
}

// send puts a message in flight to whom it names, or to all others.
func (w *world) send(from int, msg *protocol.Message) {
	if w.nodes[from].is(offline) {
		return
	}
	for to := range w.nodes {
		if to == from || !msg.To.IsZero() && msg.To.ID != letter(to) || w.nodes[to].machine == nil || w.nodes[to].is(crashed|offline) {
			continue
		}
		c := from*len(w.nodes) + to
		w.channels[c] = append(w.channels[c], flight{msg, w.now})
	}
}

// deliver hands over the oldest message of a channel.
func (w *world) deliver(c int) {
	msg := w.channels[c][0].msg
	w.channels[c] = w.channels[c][1:]
	w.log("  %s→%s %s", letter(c/len(w.nodes)), letter(c%len(w.nodes)), describe(msg))
	w.step(c%len(w.nodes), &protocol.Input{Kind: protocol.Receive, Message: msg})
}

// runs reports whether participant i takes steps.
func (w *world) runs(i int) bool { return !w.nodes[i].is(crashed | paused) }

// tick lets a heartbeat pass.
func (w *world) tick() {
	w.now += tick
	for i := range w.nodes {
		if w.runs(i) && w.failure == nil {
			w.giveUp(i)
		}
	}
	for i := range w.nodes {
		if w.runs(i) && w.failure == nil {
			w.step(i, &protocol.Input{Kind: protocol.Tick})
		}
	}
	w.takeOver()
}

// quiet reports whether no message is in flight to anybody who takes steps.
func (w *world) quiet() bool {
	for c := range w.channels {
		if len(w.channels[c]) > 0 && w.runs(c%len(w.nodes)) {
			return false
		}
	}
	return true
}

// settle delivers everything, channel by channel.
func (w *world) settle() {
	for rounds := 0; !w.quiet() && w.failure == nil; rounds++ {
		if rounds > 1000 {
			w.fail("no end of messages")
			return
		}
		for c := range w.channels {
			if len(w.channels[c]) > 0 && w.runs(c%len(w.nodes)) {
				w.deliver(c)
			}
		}
	}
}

// upkeep delivers the heartbeats, the beacons and the search for a parent that
// nothing else is before.
func (w *world) upkeep() {
	for more := true; more && w.failure == nil; {
		more = false
		for c := range w.channels {
			for len(w.channels[c]) > 0 && w.runs(c%len(w.nodes)) && isUpkeep(w.channels[c][0].msg.Kind) {
				w.deliver(c)
				more = true
			}
		}
	}
}

// isUpkeep tells the datagrams that neither move a token nor open a link.
func isUpkeep(k protocol.Kind) bool {
	switch k {
	case protocol.KindBeacon, protocol.KindBeat, protocol.KindBeatAck, protocol.KindJoin, protocol.KindOffer, protocol.KindRefuse:
		return true
	}
	return false
}
