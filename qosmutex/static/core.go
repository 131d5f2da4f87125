package static

import "padme/qosmutex/protocol"

// Core is one participant's part of an algorithm, for one resource: a
// deterministic function of the calls it gets. It acts through its [Env], and only
// during such a call. Beside these three methods it may have those of [Changer],
// [Canceller], [Taker], [Ticker] and CheckInvariants() error.
type Core interface {
	// Ask asks for the critical section. It is called only while the core has no
	// request of its own. The core answers with Env.Enter or Env.Refuse, now or later.
	Ask(r *Request)
	// Leave ends the stay in the critical section.
	Leave()
	// Receive takes a message about this resource from participant from. An error
	// says that no correct participant sends it; the state must be as before. m and
	// its slices are good during the call only.
	Receive(from int, m *protocol.Message) error
}

// Changer is a Core that can change the request which it waits for: the
// participant has another priority, or gave a request up and makes another. Cores
// that cannot serve the changed request in the place of the old one.
type Changer interface {
	Change(r *Request)
}

// Canceller is a Core that can take back the request which it waits for. Of
// others, a request that was withdrawn is granted all the same and left at once.
type Canceller interface {
	Cancel()
}

// Taker is a Core that can tell whether Ask would enter at once, without a word
// to anybody. Of others, a Try is refused.
type Taker interface {
	Free() bool
}

// Ticker is a Core that wants to be called at the instant it told Env.WakeAt.
type Ticker interface {
	Tick()
}

// Request is what the own application asks for.
type Request struct {
	ID       protocol.RequestID
	Priority int64             // smaller is more important
	Deadline protocol.Time     // on the own clock, for being inside; protocol.Never: none
	Hold     protocol.Duration // how long it will stay; 0: unknown
}

// Env is what a Core acts through: its place among the participants, and the
// machine around it. Participants are named by their index in Config.Members.
type Env struct {
	Self     int
	N        int    // participants
	Resource string //
	Floor    uint64 // every fence must be above
	Config   *protocol.Config
	m        *Machine
	wakeAt   protocol.Time

	core    Core
	own     *call   // asked of the core, or inside
	waiting []*call // asked by the application meanwhile, in order
}

// Now is the time on the participant's own clock.
func (e *Env) Now() protocol.Time { return e.m.now }

// Clock is the participant's Lamport clock. It is above that of every message
// received, and sending advances it.
func (e *Env) Clock() uint64 { return e.m.clock }

// Node is the name of participant i, as messages carry it. The incarnation is
// known only of the own one.
func (e *Env) Node(i int) protocol.Node {
	if i == e.Self {
		return e.m.cfg.Self
	}
	return protocol.Node{ID: e.m.cfg.Members[i]}
}

// Index is the participant that a message names; ok is false if there is none.
func (e *Env) Index(n protocol.Node) (i int, ok bool) {
	i, ok = e.m.index[n.ID]
	return i, ok
}

// Send sends a message of this kind to participant i, who must not be the own
// one, and returns it to be filled in. The pointer is good until the next Send.
func (e *Env) Send(i int, kind protocol.Kind) *protocol.Message {
	m := e.m
	m.clock++
	m.out.Messages = append(m.out.Messages, protocol.Message{})
	msg := &m.out.Messages[len(m.out.Messages)-1]
	msg.Kind, msg.From, msg.To = kind, m.cfg.Self, protocol.Node{ID: m.cfg.Members[i]}
	msg.Clock, msg.Resource = m.clock, e.Resource
	m.counters.Sent[kind]++
	return msg
}

// Enter lets the own application in. The fence must rise with every entry to the
// resource by anybody.
func (e *Env) Enter(fence uint64) {
	c := e.own
	c.inside, c.fence = true, fence
	if c.withdrawn {
		return // left when the core has returned
	}
	e.m.counters.Entries++
	e.m.out.Grants = append(e.m.out.Grants, protocol.Granted{
		Ref: c.ref, ID: c.ID, Turn: c.ID.Clock, Resource: e.Resource, Fence: fence, Priority: c.Priority,
	})
}

// Refuse ends the own request without an entry.
func (e *Env) Refuse(reason protocol.Reason) {
	c := e.own
	e.own = nil
	if !c.withdrawn {
		e.m.deny(c.ref, e.Resource, reason)
	}
}

// WakeAt asks for a Tick at instant t; the last call counts. protocol.Never takes
// the wish back.
func (e *Env) WakeAt(t protocol.Time) { e.wakeAt = t }

// Random draws from the participant's own sequence of chances.
func (e *Env) Random() uint64 { return e.m.random() }
