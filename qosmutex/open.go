package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"padme/pubsub"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// maxTopicName leaves room for the prefix of the inbox channel.
const maxTopicName = 120

// joinAttempts is for how many join waits Open listens in vain for a root if its context
// has no deadline.
const joinAttempts = 10

// leastPatience is for how long it listens at least: a busy root may be slow.
const leastPatience = 2 * time.Second

// Open makes participant p a member of the lock topic. It returns when p has a place in the
// tree and a session, or is the root (see [Create] and [WithRegister]). The context bounds
// only that. With a deadline, Open waits until then for a root to appear. Without one, it
// gives up after two seconds in which no root answers (ten times the JoinWait, if that is
// above 200 ms). A participant can be a member of many topics, but only once of each. Close
// the topic before p. If p closes first, others see a crash and wait for the TTL.
//
// Errors wrap ErrNoRoot if no root answers, ErrConflict if the topic has other models,
// resources or a TTL than those given, ErrInvalidName and ErrInvalidConfig, ErrTimeout or
// ErrCanceled (and context.Cause), and ErrClosed if the participant ends. An ErrTimeout or
// ErrCanceled error says what Open was waiting for, and also wraps ErrNoRoot if that was a
// root.
func Open(ctx context.Context, p *pubsub.Participant, name string, opts ...Option) (*Topic, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if o.session != "" {
		return nil, errLastWill
	}
	if err := errors.Join(o.checkTopic(name), o.checkTTL(name)); err != nil {
		return nil, err
	}
	if p.Err() != nil {
		return nil, participantEnded(name, p)
	}
	t := newTopic(p, name, o)
	if err := t.metrics.register(t); err != nil {
		return nil, err
	}
	t.alarms = useAlarms(p)
	go t.publisher()
	if err := t.join(ctx); err != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), departWait)
		defer cancel()
		return nil, errors.Join(err, t.Close(leaving))
	}
	return t, nil
}

// checkTTL refuses what only who creates the topic itself can have: a server that is asked for
// it creates the topic with another TTL, which then stays.
func (o *options) checkTTL(name string) error {
	if !o.givenTiming || o.register != nil || o.timing.TTL <= protocol.Duration(MaxTTL) {
		return nil
	}
	return fmt.Errorf("%w: lock topic %q: a TTL of %v, and a server gives %v at most: take that or less, or create the topic yourself with WithRegister; if it exists, leave WithTiming out to take what is in force",
		ErrInvalidConfig, name, time.Duration(o.timing.TTL), MaxTTL)
}

// errLastWill refuses what only a client can have.
var errLastWill = fmt.Errorf("%w: LastWill is for Dial: the last will of a member is its death", ErrInvalidConfig)

// checkTopic refuses what no member opens: words of the topic contract, but for the lock
// topic of servers among themselves.
func (o *options) checkTopic(name string) error {
	if o.served && name == servedBy {
		return nil
	}
	return checkServed(name)
}

func checkTopicName(name string) error {
	if len(name) > maxTopicName {
		return fmt.Errorf("%w: lock topic: %.20q… has %d bytes, the most is %d", ErrInvalidName, name, len(name), maxTopicName)
	}
	// pubsub-node would take a part of it for a resource: two that mean the same exclude nobody.
	if topic, resource, ok := strings.Cut(name, "/"); ok {
		return fmt.Errorf("%w: lock topic %q has a slash: what pubsub-node calls %s is resource %q of lock topic %q", ErrInvalidName, name, name, resource, topic)
	}
	return checkName("lock topic", name)
}

// join subscribes, starts the machine and waits for a place.
func (t *Topic) join(ctx context.Context) error {
	if err := t.listen(ctx); err != nil {
		return t.openError(ctx, err)
	}
	stop, err := t.lookBack(ctx)
	if err != nil {
		return t.openError(ctx, err)
	}
	if _, own := t.register.(ownRegister); own { // another may be the root whenever there is no connection
		t.stops = append(t.stops, stop)
	} else {
		defer stop()
	}
	if err := t.start(); err != nil {
		return t.openError(ctx, err)
	}
	if t.begins != nil {
		t.begins(t)
	}
	if err := t.awaitPlace(ctx); err != nil {
		return err
	}
	wanted := t.wanted(t.self.ID)
	if err := t.declare(ctx, &wanted); err != nil {
		return t.proposalError(ctx, err)
	}
	return t.checkConflict(&wanted)
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
	stop, err = t.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", t.name, "join", "+"}, t.joinMessage)
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
	t.readNotes(&cfg)
	machine, err := t.newMachine(cfg)
	if err != nil {
		return invalid(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return t.closedError()
	}
	t.machine = machine
	t.look()
	if t.trust {
		t.aside.Go(t.watchWills)
	}
	return t.step(protocol.Input{Kind: protocol.Tick})
}

// newMachine makes the topic's machine.
func (t *Topic) newMachine(cfg protocol.Config) (machine, error) {
	switch {
	case t.substitute != nil:
		return t.substitute(cfg)
	case t.register != nil:
		return t.newCandidate(cfg)
	}
	return padme.New(cfg)
}

// awaitPlace returns when the participant has a place. A context without a deadline does
// not say for how long a root may be missing: then it returns, too, when nobody has
// answered for a while.
func (t *Topic) awaitPlace(ctx context.Context) error {
	var silence <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded {
		ticker := time.NewTicker(t.patience())
		defer ticker.Stop()
		silence = ticker.C
	}
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
			return t.noPlace(ctx)
		case <-silence:
			t.mu.Lock()
			silent := !t.heard && (t.register == nil || t.record.absent || t.record.failure != nil && !t.create)
			t.heard = false
			t.mu.Unlock()
			if silent {
				return t.noRoot()
			}
		}
	}
}

// patience is for how long nobody must have answered before there counts as no root.
func (o *options) patience() time.Duration {
	return max(joinAttempts*time.Duration(o.timing.JoinWait), leastPatience)
}

// openError gives an error of the participant its kind.
func (t *Topic) openError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, fmt.Sprintf("an answer of the broker %s for lock topic %q", t.p.URL(), t.name))
	case errors.Is(err, pubsub.ErrClosed):
		return t.participantEnded()
	case errors.Is(err, pubsub.ErrUnannounced):
		return fmt.Errorf("%w: lock topic %q: Open with a participant that is Unannounced: join %q without that, or take the lock with Dial: %w", ErrInvalidConfig, t.name, t.self.ID, err)
	}
	return err
}

// participantEnded is the error when the participant is gone.
func participantEnded(name string, p *pubsub.Participant) error {
	return fmt.Errorf("%w: lock topic %q: participant %q has ended, join again: %w", ErrClosed, name, p.ID(), p.Err())
}

func (t *Topic) participantEnded() error { return participantEnded(t.name, t.p) }

// checkConflict compares what was asked for with what is in force.
func (t *Topic) checkConflict(asked *protocol.Settings) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := &t.status.Settings
	switch {
	case asked.ModelsBy != "" && in.Models != asked.Models:
		return t.conflict("models "+asked.Models.String(), fmt.Sprintf("%v are", in.Models), in.ModelsBy, "--models "+asked.Models.String())
	case asked.ResourcesBy != "" && !sameResources(in, asked):
		return t.conflict("resources "+resourcesText(asked), resourcesText(in)+" are", in.ResourcesBy, resourcesFlags(asked))
	case t.givenTiming && t.status.TTL != t.timing.TTL:
		least := ""
		if t.timing.TTL < protocol.Duration(MinTTL) {
			least = fmt.Sprintf(" (no server gives less than %v)", MinTTL)
		}
		return fmt.Errorf("%w: lock topic %q: %q asks for a TTL of %v, but %v is in force, which never changes: leave it out, or take another lock topic%s",
			ErrConflict, t.name, t.self.ID, time.Duration(t.timing.TTL), time.Duration(t.status.TTL), least)
	}
	return nil
}

// conflict names both sides, and the command that settles it.
func (t *Topic) conflict(asked, inForce, by, flags string) error {
	if by != "" {
		by = fmt.Sprintf(", as %q declared", by)
	}
	return fmt.Errorf("%w: lock topic %q: %q asks for %s, but %s in force%s: leave the option out to take those, or put yours in their place with: pubsub-node lock configure %s %s",
		ErrConflict, t.name, t.self.ID, asked, inForce, by, shellWord(t.name), flags)
}

func resourcesText(s *protocol.Settings) string {
	if s.Open {
		return list(s.Resources) + " and any other"
	}
	return list(s.Resources)
}

// resourcesFlags are the flags of pubsub-node that ask for these resources.
func resourcesFlags(s *protocol.Settings) string {
	flags := ""
	if len(s.Resources) > 0 {
		flags = "--resources " + shellWord(strings.Join(s.Resources, ","))
	}
	if s.Open {
		flags = strings.TrimSpace(flags + " --open")
	}
	return flags
}

// shellWord quotes a word for the shell where it needs it.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
