package papers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// departWait is how long Close waits until the others have everything that this member
// sent.
const departWait = time.Second

// maxTopicName leaves space for the prefix of the inbox channel.
const maxTopicName = 120

// earliest is the time before which this code did not exist. Fences start at the wall
// clock, so those of a clock that was not set would go back.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// opened makes incarnations differ that begin within one microsecond.
var opened atomic.Uint64

// Topic is one participant's membership of a lock topic. Make one with Open.
type Topic struct {
	cfg     Config
	name    string
	channel string // of the inbox
	p       *pubsub.Participant
	self    protocol.Node
	log     *slog.Logger
	begun   time.Time

	// mu is held for each step of the machine, from the reading of the clock to the
	// handling of what follows. Nothing under it blocks.
	mu       sync.Mutex
	machine  protocol.Machine
	out      protocol.Output
	in       protocol.Input
	decoder  protocol.Decoder
	message  protocol.Message
	buffer   []byte
	wakeAt   protocol.Time
	priority int64
	lastRef  uint64
	calls    map[uint64]*qosmutex.Pending // waiting and inside
	orphans  []uint64                     // granted, but the caller has gone
	refused  map[string]uint64
	reports  reports
	closing  bool
	ended    bool
	err      error

	wake      *time.Timer
	departed  chan struct{} // closed when the others have everything
	ctx       context.Context
	finish    context.CancelFunc
	stops     []func()
	running   sync.WaitGroup
	closeOnce sync.Once
}

var _ qosmutex.Locker = (*Topic)(nil)

// Open makes participant p a member of the lock topic. It waits for nobody: members may
// open in any order, and requests wait until those have come on whom they depend.
//
// Errors wrap qosmutex.ErrInvalidName, ErrInvalidConfig, and ErrClosed when the participant
// has ended.
func Open(p *pubsub.Participant, name string, cfg Config) (*Topic, error) {
	now := time.Now()
	cfg.Members, cfg.Resources = slices.Clone(cfg.Members), slices.Clone(cfg.Resources)
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("lock topic %q: %w", name, err)
	}
	if p == nil {
		return nil, fmt.Errorf("%w: lock topic %q: the participant is nil: make one with pubsub.Join", qosmutex.ErrInvalidConfig, name)
	}
	if err := checkName(name); err != nil || len(name) > maxTopicName || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w: lock topic %.20q: give 1 to %d bytes of UTF-8 without a slash or control characters", qosmutex.ErrInvalidName, name, maxTopicName)
	}
	if now.Before(earliest) {
		return nil, fmt.Errorf("%w: the wall clock says %s: set it before opening lock topic %q, as fences start from it", qosmutex.ErrInvalidConfig, now.UTC().Format(time.DateTime), name)
	}
	floor := uint64(now.UnixMicro())
	self := protocol.Node{ID: p.ID(), Incarnation: floor + opened.Add(1)}
	machine, err := static.OverLossyChannels(cfg.Algorithm).New(cfg.protocol(self, floor))
	if err != nil {
		return nil, fmt.Errorf("%w: lock topic %q: %w", qosmutex.ErrInvalidConfig, name, err)
	}
	t := &Topic{
		cfg: cfg, name: name, channel: "lock/" + name, p: p, self: self, begun: now, machine: machine,
		log: slog.New(slog.DiscardHandler), priority: cfg.Priority, lastRef: self.Incarnation,
		calls: map[uint64]*qosmutex.Pending{}, refused: map[string]uint64{}, departed: make(chan struct{}),
		wake: time.NewTimer(0), // the first tick
	}
	if cfg.Logger != nil {
		t.log = cfg.Logger.With(slog.String("participant", p.ID()), slog.String("lock", name))
	}
	t.wakeAt = t.now()
	t.ctx, t.finish = context.WithCancel(context.Background())
	t.reports.begin(t)
	if err := t.start(); err != nil {
		t.finish()
		return nil, err
	}
	return t, nil
}

// start listens to the others.
func (t *Topic) start() error {
	stop, err := t.p.Inbox(t.channel, t.inbox)
	switch {
	case errors.Is(err, pubsub.ErrInUse):
		return fmt.Errorf("%w: participant %q has lock topic %q open already: use that one", qosmutex.ErrInvalidConfig, t.self.ID, t.name)
	case errors.Is(err, pubsub.ErrClosed):
		return t.participantEnded()
	case err != nil:
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stops = append(t.stops, stop, t.p.Notify(t.reconnected))
	t.running.Go(t.run)
	if t.first() {
		t.running.Go(t.follow)
	}
	return nil
}

// run is the goroutine of the topic.
func (t *Topic) run() {
	for {
		select {
		case <-t.wake.C:
			t.tick()
		case <-t.reports.flush.C:
			t.publish()
		case <-t.p.Done():
			t.end(t.participantEnded())
			return
		case <-t.ctx.Done():
			t.publish()
			return
		}
	}
}

// now is the time by the clock of the machine.
func (t *Topic) now() protocol.Time { return protocol.Time(time.Since(t.begun)) }

// first reports whether this is the first member.
func (t *Topic) first() bool { return t.cfg.Members[0] == t.self.ID }

// step feeds one input to the machine and does what follows. The caller holds mu and has
// checked that the topic has not ended. The error is the machine's.
func (t *Topic) step(in protocol.Input) error {
	err := t.stepOnce(in)
	for len(t.orphans) > 0 {
		ref := t.orphans[len(t.orphans)-1]
		t.orphans = t.orphans[:len(t.orphans)-1]
		_ = t.stepOnce(protocol.Input{Kind: protocol.Leave, Ref: ref})
	}
	if t.closing && t.machine.Status().Role == protocol.Departed {
		select {
		case <-t.departed:
		default:
			close(t.departed)
		}
	}
	return err
}

func (t *Topic) stepOnce(in protocol.Input) error {
	t.in = in // which escapes into the machine
	now := t.now()
	err := t.machine.Step(now, &t.in, &t.out)
	for i := range t.out.Messages {
		t.send(&t.out.Messages[i])
	}
	for i := range t.out.Grants {
		t.granted(&t.out.Grants[i])
	}
	for i := range t.out.Denials {
		t.denied(&t.out.Denials[i])
	}
	if t.out.WakeAt < t.wakeAt { // one that is too early costs less than moving the timer
		t.wakeAt = t.out.WakeAt
		t.wake.Reset(time.Duration(t.wakeAt - now))
	}
	return err
}

func (t *Topic) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.wakeAt = protocol.Never
		_ = t.step(protocol.Input{Kind: protocol.Tick})
	}
}

// reconnected tells the machine that messages may have been lost.
func (t *Topic) reconnected(up bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if up && !t.ended {
		t.reports.again(t)
		_ = t.step(protocol.Input{Kind: protocol.Reconnect})
	}
}

// Name returns the name of the lock topic.
func (t *Topic) Name() string { return t.name }

// Status describes this participant's part of the algorithm. It is meant for people and
// costs time in proportion to resources and requests.
func (t *Topic) Status() protocol.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.machine.Status()
}

// Done is closed when the topic has ended, by Close or because the participant ended; Err
// then says why.
func (t *Topic) Done() <-chan struct{} { return t.ctx.Done() }

// Err returns nil while the topic is open, and an error that wraps qosmutex.ErrClosed
// afterwards.
func (t *Topic) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close releases what this participant holds, withdraws its requests and ends the topic. It
// waits, as long as ctx allows and at most a second, until the others have what it sent:
// what they miss then, they wait for forever. Calls that wait return an error that wraps
// qosmutex.ErrClosed. Close may be called again, and returns nil.
func (t *Topic) Close(ctx context.Context) error {
	t.closeWithin(ctx, departWait)
	return nil
}

func (t *Topic) closeWithin(ctx context.Context, wait time.Duration) {
	t.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		t.depart()
		select {
		case <-t.departed:
		case <-t.ctx.Done():
		case <-ctx.Done():
		}
		t.end(t.closedError())
		t.running.Wait()
	})
}

// depart gives everything back.
func (t *Topic) depart() {
	t.mu.Lock()
	t.closing = true
	var holds []*qosmutex.Hold
	for _, p := range t.calls {
		if h := p.Granted(); h != nil {
			holds = append(holds, h)
			continue
		}
		t.withdraw(p, "closed")
		p.Deny(t.closedError())
	}
	t.mu.Unlock()
	for _, h := range holds {
		_ = h.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		_ = t.step(protocol.Input{Kind: protocol.Depart})
	}
}

// end ends the topic for good: what is still held is lost, and waiting requests end.
func (t *Topic) end(err error) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.ended, t.err = true, err
	for _, p := range t.calls {
		if p.Granted() == nil {
			p.Deny(err)
			continue
		}
		p.Lose()
		t.report(p, qosmutex.EventLost)
	}
	clear(t.calls)
	t.wake.Stop()
	t.finish()
	t.mu.Unlock()
	for _, stop := range t.stops {
		stop()
	}
}

func (t *Topic) closedError() error {
	return fmt.Errorf("%w: lock topic %q: Open it again, when all members have ended", qosmutex.ErrClosed, t.name)
}

func (t *Topic) participantEnded() error {
	return fmt.Errorf("%w: lock topic %q: participant %q has ended: %w", qosmutex.ErrClosed, t.name, t.self.ID, t.p.Err())
}

// seedOf gives every member chances of its own: FNV-1a of the id, then of the incarnation.
// (Started from the incarnation, "b" and "c" that open within one microsecond get the same.)
func seedOf(n protocol.Node) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range binary.BigEndian.AppendUint64([]byte(n.ID), n.Incarnation) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
