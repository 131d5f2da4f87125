package padme

import (
	"fmt"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// core is what all parts of a machine share.
type core struct {
	self      protocol.Node
	timing    protocol.Timing // TTL is the topic's once a session is there; see outlast
	graced    protocol.Duration
	now       protocol.Time
	out       *protocol.Output // of this Step
	role      protocol.Role
	began     bool
	departing bool
	idle      bool // no own request was made or ended since the last beacon

	priority    int64
	clock       uint64 // Lamport clock: the C of the next request is above it
	lastName    uint64 // C of our latest request by name; above clock only once there are turns of clients
	servedClock uint64 // C of the latest request that the root served in its turn, as far as beacons told
	epoch       protocol.Epoch
	root        protocol.Node
	domain      uint64 // the short form of that of the register which names the root that we are, or that gave our session
	settings    protocol.Settings
	wanted      *protocol.Proposal // asked for here and not in force yet
	counters    protocol.Counters
}

func (c *core) write(w *canonical.Writer) {
	w.Flags(c.began, c.departing, c.idle, c.wanted != nil)
	w.Uint(uint64(c.role))
	w.Int(c.priority)
	w.Int(int64(c.timing.TTL))
	w.Named(canonical.SortClock, c.clock)
	w.Named(canonical.SortClock, c.lastName)
	w.Named(canonical.SortClock, c.servedClock)
	w.Epoch(c.epoch)
	w.Node(c.root)
	w.Uint(c.domain)
	if c.wanted != nil {
		w.Settings(&c.wanted.Settings)
		w.Flags(c.wanted.Change)
	}
	w.Settings(&c.settings)
}

// heartbeat is the configured interval, or less if the topic's TTL is short.
func (c *core) heartbeat() protocol.Duration {
	return min(c.timing.Heartbeat, c.timing.TTL/4)
}

// grace is for how long the root waits for a member, whose session is over by then.
func (c *core) grace() protocol.Duration { return c.graced }

// outlast takes the TTL of the topic. Each Step asks for its grace several times.
func (c *core) outlast(ttl protocol.Duration) {
	c.timing.TTL = ttl
	c.graced = c.timing.Grace()
}

// outlast is that of core. If the TTL is shorter than the one that we began with, the next
// heartbeat comes sooner: else the lease or our session would end before it.
func (m *Machine) outlast(ttl protocol.Duration) {
	m.core.outlast(ttl)
	m.beacon.next = min(m.beacon.next, m.now+m.heartbeat())
}

// emit appends an empty message to the output. The pointer is good until the
// next emit.
func (c *core) emit(kind protocol.Kind, to protocol.Node) *protocol.Message {
	n := len(c.out.Messages)
	c.out.Messages = slices.Grow(c.out.Messages, 1)[:n+1]
	msg := &c.out.Messages[n]
	*msg = protocol.Message{} // in place: it is half a kilobyte
	msg.Kind, msg.From, msg.To = kind, c.self, to
	msg.Epoch, msg.Clock = c.epoch, max(c.clock, c.servedClock)
	c.counters.Sent[kind]++
	return msg
}

func (c *core) stale(msg *protocol.Message, why string) error {
	c.counters.Stale++
	return fmt.Errorf("%w: %v from %v: %s", ErrStale, msg.Kind, msg.From, why)
}

func (c *core) badInput(why string) error {
	return fmt.Errorf("%w: %s", ErrInvalid, why)
}

func (c *core) invalid(msg *protocol.Message, why string) error {
	c.counters.Invalid++
	return fmt.Errorf("%w: %v from %v: %s", ErrInvalid, msg.Kind, msg.From, why)
}

// exceeded tells that somebody has gone beyond a limit.
func (c *core) exceeded(limit protocol.Limit, from string, most int) {
	c.counters.Excesses[limit]++
	c.out.Excesses = append(c.out.Excesses, protocol.Excess{Limit: limit, From: from, Most: most})
}

// deny tells the application that its request ref will not be served.
func (c *core) deny(ref uint64, resource string, reason protocol.Reason) {
	c.out.Denials = append(c.out.Denials, protocol.Denial{Ref: ref, Resource: resource, Reason: reason})
}

// touch tells that the status of a resource may have changed; Any: of all.
func (c *core) touch(resource string) { c.out.Touched = append(c.out.Touched, resource) }

// climbs reports whether every request goes up to the root.
func (c *core) climbs() bool {
	return c.settings.Models.Request == protocol.RequestForward || c.settings.Models.Priority == protocol.Deadline || c.directs()
}

// uses reports whether a passing token may be used under the given model.
func (c *core) uses(model protocol.PassModel) bool {
	return model == protocol.Use && c.settings.Models.Priority != protocol.Deadline && !c.directs()
}

// retains reports whether a participant may keep the token when it leaves.
func (c *core) retains() bool {
	return c.settings.Models.Release == protocol.Retain && c.settings.Models.Priority != protocol.Deadline
}

// directs reports whether a participant that leaves sends the token straight to the next participant.
func (c *core) directs() bool {
	return c.settings.Models.Release == protocol.Direct && c.settings.Models.Priority != protocol.Deadline
}

func (c *core) declared(resource string) bool {
	_, ok := slices.BinarySearch(c.settings.Resources, resource)
	return ok
}

// old reports whether a grant is of an earlier term.
func (c *core) old(g protocol.Grant) bool { return g.Epoch.Number < c.epoch.Number }

// farAhead reports whether a term is further ahead than any root can have come:
// believed, it would leave no room for terms to come.
func (c *core) farAhead(term uint64) bool {
	return term > c.epoch.Number && term-c.epoch.Number > maxTermJump
}

// patient reports whether the model in force counts who overtakes whom.
func (c *core) patient() bool {
	p := c.settings.Models.Priority
	return p == protocol.Fair || p == protocol.Aging
}

// after is d after t, Never if that is too far.
func after(t protocol.Time, d protocol.Duration) protocol.Time {
	if t == protocol.Never || d > protocol.Never-max(t, 0) {
		return protocol.Never
	}
	return t + d
}
