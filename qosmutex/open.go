package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/pubsub"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// maxTopicName leaves room for the prefix of the inbox channel.
const maxTopicName = 120

// earliest is the time before which this code did not exist: a clock that is
// behind it was not set, and fences that rest on it would go back.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// joinAttempts is for how many join waits Open listens for a root in vain.
const joinAttempts = 10

// leastPatience is for how long it listens at least: a busy root may be slow.
const leastPatience = 2 * time.Second

// Open makes participant p a member of the lock topic and returns when it has a
// place in its tree and a session, or is its root (see Create and WithRegister). The
// context bounds that only. A participant can be a member of many topics, and
// once of each.
//
// Errors wrap ErrNoRoot when no root answers, ErrConflict when the topic runs with
// other models, resources or TTL than those given, ErrInvalidName and
// ErrInvalidConfig, ErrTimeout or ErrCancelled (and context.Cause), and ErrClosed
// when the participant ends.
func Open(ctx context.Context, p *pubsub.Participant, name string, opts ...Option) (*Topic, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if err := checkName("lock topic", name); err != nil {
		return nil, err
	}
	if len(name) > maxTopicName {
		return nil, fmt.Errorf("%w: lock topic: %.20q… has %d bytes, the most is %d", ErrInvalidName, name, len(name), maxTopicName)
	}
	t := newTopic(p, name, o)
	if err := t.metrics.register(t); err != nil {
		return nil, err
	}
	go t.publisher()
	if err := t.join(ctx); err != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), departWait)
		defer cancel()
		return nil, errors.Join(err, t.Close(leaving))
	}
	return t, nil
}

// join subscribes, starts the machine and waits for a place.
func (t *Topic) join(ctx context.Context) error {
	if err := t.listen(ctx); err != nil {
		return t.openError(ctx, err)
	}
	if err := t.start(); err != nil {
		return t.openError(ctx, err)
	}
	if err := t.awaitPlace(ctx); err != nil {
		return t.openError(ctx, err)
	}
	if err := t.declare(ctx); err != nil {
		return t.openError(ctx, err)
	}
	return t.checkConflict()
}

// listen subscribes to what the machine must hear.
func (t *Topic) listen(ctx context.Context) error {
	stop, err := t.p.Inbox(t.channel, t.inbox)
	if errors.Is(err, pubsub.ErrInUse) {
		return fmt.Errorf("%w: participant %q has lock topic %q open already: use that one", ErrInvalidConfig, t.self.ID, t.name)
	}
	if err != nil {
		return err
	}
	t.stops = append(t.stops, stop)
	stop, err = t.p.SubscribeRaw(ctx, []string{"lock", t.name, "join", "+"}, t.joinMessage)
	if err != nil {
		return err
	}
	t.stops = append(t.stops, stop, t.p.Notify(t.reconnected))
	return nil
}

// start makes the machine and feeds it the first tick.
func (t *Topic) start() error {
	cfg := protocol.Config{
		Self: t.self, Priority: t.priority, Timing: t.timing, Parent: t.parent, Fanout: t.fanout, TrustSuspect: t.trust,
		Settings: t.wanted(t.self.ID),
	}
	machine, err := t.newMachine(cfg)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return t.closedError()
	}
	t.machine = machine
	t.brief, _ = machine.(brief)
	t.look() // a static algorithm has its role from the start
	if t.trust {
		t.aside.Go(t.watchWills)
	}
	return t.step(protocol.Input{Kind: protocol.Tick})
}

// newMachine makes the topic's machine. Fences of other algorithms than PADME start at the
// wall clock, as no participant remembers the earlier ones.
func (t *Topic) newMachine(cfg protocol.Config) (protocol.Machine, error) {
	if t.algorithm.Name == padme.Algorithm.Name {
		if t.register != nil {
			return t.newCandidate(cfg)
		}
		return t.options.machine(cfg)
	}
	now := time.Now()
	if now.Before(earliest) {
		return nil, fmt.Errorf("the wall clock says %s: set it before opening lock topic %q, as fences start from it", now.UTC().Format(time.DateTime), t.name)
	}
	cfg.FenceFloor, cfg.EpochFloor, cfg.Root = uint64(now.UnixMicro()), uint64(now.UnixMicro()), t.create
	return t.options.machine(cfg)
}

// awaitPlace returns when the participant has a place, or no participant has answered
// for a while.
func (t *Topic) awaitPlace(ctx context.Context) error {
	patience := max(joinAttempts*time.Duration(t.timing.JoinWait), leastPatience)
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		t.mu.Lock()
		ready, changed := t.ready(), t.changed
		t.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return t.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			t.mu.Lock()
			silent := !t.heard && (t.register == nil || t.record.absent || t.record.failure != nil && !t.create)
			t.heard = false
			t.mu.Unlock()
			if silent {
				return t.noRoot()
			}
			silence.Reset(patience)
		}
	}
}

// openError gives an error of Open its kind.
func (t *Topic) openError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, fmt.Sprintf("a place in lock topic %q on %s", t.name, t.p.URL()))
	case errors.Is(err, pubsub.ErrClosed):
		return t.participantEnded()
	}
	return err
}

// participantEnded is the error when the participant is gone.
func (t *Topic) participantEnded() error {
	return fmt.Errorf("%w: lock topic %q: participant %q has ended, join again: %w", ErrClosed, t.name, t.self.ID, t.p.Err())
}

// checkConflict compares what was asked for with what is in force.
func (t *Topic) checkConflict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.status.Settings
	conflict := func(what string, asked, inForce any, by string) error {
		if by != "" {
			by = fmt.Sprintf(", as %q declared", by)
		}
		return fmt.Errorf("%w: lock topic %q: asked for %s %v, but %v in force%s: leave the option out to take what is in force",
			ErrConflict, t.name, what, asked, inForce, by)
	}
	switch {
	case t.givenModels && in.Models != t.models:
		return conflict("models", t.models, fmt.Sprintf("%v are", in.Models), in.ModelsBy)
	case t.givenResources && (in.Open != t.open || !slices.Equal(in.Resources, t.resources)):
		return conflict("resources", resourcesText(t.resources, t.open), resourcesText(in.Resources, in.Open)+" are", in.ResourcesBy)
	case t.givenTiming && t.status.TTL != t.timing.TTL:
		return conflict("TTL", time.Duration(t.timing.TTL), fmt.Sprintf("%v is", time.Duration(t.status.TTL)), "")
	}
	return nil
}

func resourcesText(ids []string, open bool) string {
	if open {
		return list(ids) + " and any other"
	}
	return list(ids)
}
