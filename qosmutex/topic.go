package qosmutex

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// Topic is one participant's membership of a lock topic. Make one with Open.
type Topic struct {
	options
	name    string
	channel string   // of the inbox
	joins   []string // levels on which this participant multicasts
	p       *pubsub.Participant
	self    protocol.Node
	metrics *metrics

	// mu is held for each step of the machine, from the reading of the clock to
	// the handling of what follows. Nothing under it blocks.
	mu      sync.Mutex
	machine machine
	record  recordKeeper
	out     protocol.Output
	in      protocol.Input
	decoder protocol.Decoder
	message protocol.Message
	buffer  []byte
	lastRef uint64
	calls   map[uint64]*Hold // waiting and inside, by Ref
	inside  map[uint64]*Hold // of calls, those that the machine counts as inside
	orphans []uint64         // granted, but the caller has gone
	// unanswered is what the root refused while it did not know who holds.
	unanswered []unanswered
	// validUntil is when the session of this participant ends by its clock.
	validUntil protocol.Time
	heard      bool              // a join was answered, since it was looked last
	hadRoot    bool              // or ever
	earlier    protocol.Duration // TTL of a root of before, as it was published; 0: not known
	used       time.Time         // when a participant last came or went, or somebody asked here or, at the root, anywhere; zero: never
	status     protocol.Status
	changed    chan struct{} // closed and replaced when status may have changed
	closing    bool
	ended      bool
	err        error
	barriers   barriers
	cautioned  bool // Lock has warned of names that nobody declared

	alarms *alarms // from Open until the topic has ended
	alarm  alarm

	aside sync.WaitGroup    // goroutines that end with ctx
	nodes map[string]uint64 // incarnation of each participant heard of; for wills

	events   reports
	board    board
	standing standing

	stops     []func()        // subscriptions
	ctx       context.Context // ends with the topic
	finish    context.CancelFunc
	published chan struct{} // closed when the publisher has ended
	closeOnce sync.Once
}

func newTopic(p *pubsub.Participant, name string, o options) *Topic {
	t := &Topic{
		options:   o,
		name:      name,
		channel:   "lock/" + name,
		joins:     []string{"lock", name, "join", p.ID()},
		p:         p,
		self:      protocol.Node{ID: p.ID(), Incarnation: nextIncarnation()},
		calls:     map[uint64]*Hold{},
		inside:    map[uint64]*Hold{},
		nodes:     map[string]uint64{},
		changed:   make(chan struct{}),
		published: make(chan struct{}),
	}
	t.lastRef = t.self.Incarnation // so that names of requests are not used again after a restart
	t.log = o.log.With(slog.String("participant", p.ID()), slog.String("lock", name))
	if t.metrics = (&metrics{}); t.reached == nil {
		t.reached = newExcesses(o.log.With(slog.String("participant", p.ID())))
	}
	t.ctx, t.finish = context.WithCancel(context.Background())
	t.events.on = o.events
	t.events.flush = time.NewTimer(time.Hour)
	t.events.flush.Stop()
	t.alarm = alarm{topic: t, at: protocol.Never, place: -1}
	t.board.resources = map[string]*notice{}
	t.out.Explain = true // states tell of it
	return t
}

// Name returns the name of the lock topic.
func (t *Topic) Name() string {
	if t.made() != nil {
		return ""
	}
	return t.name
}

// Models returns the models in force, as far as this participant knows.
func (t *Topic) Models() Models {
	if t.made() != nil {
		return Models{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.Settings.Models
}

// Resources returns the declared resources, sorted.
func (t *Topic) Resources() []string {
	if t.made() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.status.Settings.Resources)
}

// Status describes this participant's part of the algorithm. It is meant for people, and
// its cost is proportional to the number of resources and requests.
func (t *Topic) Status() protocol.Status {
	if t.made() != nil {
		return protocol.Status{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.machine.Status()
}

// Done is closed when the topic has ended, by Close or because the participant
// ended; Err then says why.
func (t *Topic) Done() <-chan struct{} {
	if t.made() != nil {
		return ended
	}
	return t.ctx.Done()
}

// Err returns nil while the topic is open, and an error that wraps ErrClosed
// afterwards.
func (t *Topic) Err() error {
	if err := t.made(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// step feeds one input to the machine and does what follows. The caller holds
// mu and has checked that the topic has not ended. The error is the machine's.
func (t *Topic) step(in protocol.Input) error { return t.stepAt(t.clock(), in) }

// stepAt is step for one who has read the clock just now, under mu.
func (t *Topic) stepAt(now protocol.Time, in protocol.Input) error {
	err := t.stepOnce(now, in)
	t.settle(now)
	return err
}

// settle does what follows from a step within the participant itself.
func (t *Topic) settle(now protocol.Time) {
	for t.settleOne(now) {
	}
	t.arm(now, t.out.WakeAt)
}

// settleOne does one thing that follows from a step, and reports whether there was one.
func (t *Topic) settleOne(now protocol.Time) bool {
	switch c := t.record.candidate; {
	case len(t.orphans) > 0:
		ref := t.orphans[len(t.orphans)-1]
		t.orphans = t.orphans[:len(t.orphans)-1]
		_ = t.stepOnce(now, protocol.Input{Kind: protocol.Leave, Ref: ref})
	case c != nil && c.Pending():
		_ = t.stepOnce(now, protocol.Input{Kind: protocol.Tick})
	case t.askAgain():
	default:
		return t.askRegister(now)
	}
	return true
}

func (t *Topic) stepOnce(now protocol.Time, input protocol.Input) error {
	t.in = input // which escapes into the machine
	in := &t.in
	err := t.machine.Step(now, in, &t.out)
	t.carryOut(in, now)
	t.notice(in)
	return err
}

// carryOut does what an output says, in the order that is its contract.
func (t *Topic) carryOut(in *protocol.Input, now protocol.Time) {
	for i := range t.out.Losses {
		t.lost(&t.out.Losses[i])
	}
	if len(t.out.Begun)+len(t.out.Ended) > 0 {
		t.used = time.Now()
	}
	t.noteMembers()
	t.noteStand()
	t.noteElsewhere()
	spoke := t.board.term
	t.rule(now)
	for i := range t.out.Messages {
		t.send(&t.out.Messages[i])
	}
	if t.worthALook(in) || t.board.term != spoke {
		t.look()
	} else {
		t.extend(t.machine.ValidUntil())
	}
	for _, ref := range t.out.Confirmed {
		t.confirmed(ref)
	}
	for i := range t.out.Grants {
		t.granted(&t.out.Grants[i])
	}
	for i := range t.out.Denials {
		t.refused(&t.out.Denials[i])
	}
	t.tellExcesses()
}

// machine is PADME's, which answers what the runtime asks often without a Status.
type machine interface {
	protocol.Machine
	// Overview is Status without the resources. Its Settings.Resources is the machine's.
	Overview() protocol.Status
	ValidUntil() protocol.Time
	// RulesUntil is until when the machine speaks for the topic; 0: it does not.
	RulesUntil() protocol.Time
	// Resource describes one resource, naming at most so many that wait.
	Resource(name string, most int) (protocol.ResourceStatus, bool)
}

// worthALook reports whether the machine's Status may differ from what is known of it.
// It does not by the traffic of requests and tokens, so the path that counts does not
// pay for a Status. Numbers of members and the like are looked at with each tick.
func (t *Topic) worthALook(in *protocol.Input) bool {
	return t.out.Changed || len(t.out.Losses) > 0 || t.closing || in.Kind == protocol.Tick
}

// look takes over what the machine says of itself and tells those that wait for a
// change.
func (t *Topic) look() {
	was := t.status
	t.status = t.machine.Overview()
	t.extend(t.status.ValidUntil)
	t.noteStanding()
	if is := &t.status; is.Role != was.Role || is.Session != was.Session || is.Epoch != was.Epoch ||
		is.Settings.Version != was.Settings.Version || is.Settings.Models != was.Settings.Models {
		t.noteChange(&was)
		t.tellChanged()
	}
	if n := t.status.Counters.Regenerated; n > was.Counters.Regenerated {
		t.report(eventRecord{name: EventRegenerated, at: time.Now()})
	}
}

// tellChanged wakes those that wait for a change. The caller holds mu.
func (t *Topic) tellChanged() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// ready reports whether the participant has its place: it is root, or a member
// with a session that is valid.
func (t *Topic) ready() bool {
	switch t.status.Role {
	case protocol.Root:
		return true
	case protocol.Member:
		return t.status.Session != 0 && t.clock() < t.status.ValidUntil
	}
	return false
}

// reconnected tells the machine that messages may have been lost.
func (t *Topic) reconnected(up bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || !up || t.machine == nil {
		return
	}
	t.board.lookAgain()
	t.standing.again = true
	t.flushSoon(flushAfter)
	_ = t.step(protocol.Input{Kind: protocol.Reconnect})
}
