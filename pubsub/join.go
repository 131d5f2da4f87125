package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/drop"
)

var lastIncarnation atomic.Uint64

// newIncarnation returns the wall clock in microseconds, later than any other
// in this process.
func newIncarnation() uint64 {
	for {
		last := lastIncarnation.Load()
		next := max(uint64(time.Now().UnixMicro()), last+1)
		if lastIncarnation.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Join connects the participant id to the broker at rawURL (mqtt://, mqtts://, tcp://,
// ssl://, ws:// or wss://; host:port alone is mqtt) and announces its birth. It blocks
// until the participant is connected, announced and listening on its inbox (only connected
// if it is Unannounced), or until ctx ends. ctx bounds only Join, not the participant. Join
// does not retry.
//
// A cluster is given by the URLs of its servers, separated by commas. Join tries each once,
// from the first. When a connection is lost, the same server is tried again, and then the
// others in turn. They must be one broker: what is published at one arrives at the others,
// including retained messages.
//
// Errors wrap ErrInvalid (id, URL or option), ErrUnreachable, ErrRefused (credentials or
// access rules; a *RefusedError says which) or ErrDuplicateID, after a cancellation
// context.Canceled and its cause, and context.DeadlineExceeded if the deadline had passed
// before the call. An id is 1 to 128 bytes of UTF-8, neither "+" nor "#" (see CheckName),
// and belongs to one live process. If another process answers under it, Join fails. If two
// join at the same instant, the one with the older incarnation stays.
func Join(ctx context.Context, rawURL, id string, opts ...Option) (*Participant, error) {
	p, err := newParticipant(rawURL, id, opts)
	if err != nil {
		return nil, err
	}
	if err := p.register(); err != nil {
		return nil, err
	}
	if err := p.begin(ctx, p.main); err != nil {
		return nil, err
	}
	return p, nil
}

// begin connects a lane, and has it connected from then on. Else the participant ends.
func (p *Participant) begin(ctx context.Context, l *connection.Lane) error {
	k, err := p.establish(ctx, l)
	if err != nil {
		p.end(err)
		p.awaitEnd()
		return err
	}
	l.Up(k, false)
	p.wg.Go(func() { l.Run(p.ctx, k) })
	context.AfterFunc(p.ctx, p.awaitEnd)
	return nil
}

// establish tries each server once.
func (p *Participant) establish(ctx context.Context, l *connection.Lane) (*connection.Link, error) {
	if ctx.Err() != nil {
		return nil, gaveUp(ctx, p.label)
	}
	k, err := l.Establish(ctx)
	for range len(p.servers.URLs) - 1 {
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrDuplicateID) {
			break
		}
		k, err = l.Establish(ctx)
	}
	return k, abandoned(ctx, p.label, err)
}

// abandoned is err of a connection that was being made, unless its caller has given it up:
// then nothing is known of the broker.
func abandoned(ctx context.Context, url string, err error) error {
	if errors.Is(err, ErrUnreachable) && errors.Is(ctx.Err(), context.Canceled) {
		return gaveUp(ctx, url)
	}
	return err
}

// gaveUp is the error of a caller whose context ended before the broker could be judged.
func gaveUp(ctx context.Context, url string) error {
	return fmt.Errorf("pubsub: connecting to %s: the context ended: %w", url, whyEnded(ctx))
}

// whyEnded is ctx's error, and the cause if it has another one.
func whyEnded(ctx context.Context) error {
	why := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, why) {
		why = fmt.Errorf("%w: %w", why, cause)
	}
	return why
}

func newParticipant(rawURL, id string, opts []Option) (*Participant, error) {
	p := &Participant{options: defaultOptions(), id: id, label: rawURL, incarnation: newIncarnation(), done: make(chan struct{})}
	if err := CheckName(id); err != nil {
		return nil, fmt.Errorf("participant id: %w", err)
	}
	p.level, _ = EncodeLevel(id) // it was checked
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&p.options); err != nil {
			return nil, err
		}
	}
	if err := p.checkPresence(); err != nil {
		return nil, err
	}
	if p.dialer == nil {
		var err error
		if p.servers.URLs, err = connection.ParseURLs(rawURL, p.tls); err != nil {
			return nil, err
		}
	}
	prefix, _ := EncodeLevel(p.prefix) // checked by the options
	domain, _ := EncodeLevel(p.domain)
	p.root = prefix + "/v1/" + domain
	p.log = p.log.With("participant", id)
	p.ctx, p.end = context.WithCancelCause(context.Background())
	p.inbox.prefix = p.root + "/node/" + p.level + "/"
	p.directory = discovery.New(discovery.Config{
		ID: id, Level: p.level, Root: p.root, URL: p.label, Incarnation: p.incarnation, UserData: p.userData,
		Takeover: p.takeover, Unannounced: p.unannounced, Log: p.log, Context: p.ctx,
	}, network{p})
	p.exchange.init(p)
	p.queue = connection.NewQueue()
	p.main = &connection.Lane{
		Name:      "main",
		Log:       p.log,
		Out:       p.queue,
		Establish: p.connectMain,
		Changed:   p.mainChanged,
		Failed:    p.mainFailed,
		Dropped:   func(n int) { p.counters.dropped[drop.Disconnect].Add(uint64(n)) },
	}
	return p, nil
}

// register makes the counters visible until awaitEnd.
func (p *Participant) register() error {
	if p.metrics == nil {
		return nil
	}
	p.metrics = prometheus.WrapRegistererWith(prometheus.Labels{"participant": p.id, "domain": p.domain}, p.metrics)
	if err := p.metrics.Register(&p.counters); err != nil {
		return fmt.Errorf("%w: metrics of participant %q: %w", ErrInvalid, p.id, err)
	}
	return nil
}

// connectLane opens a link for a lane; the suffix keeps client ids apart.
func (p *Participant) connectLane(ctx context.Context, suffix string, will connection.Packet, receive func(string, []byte, bool)) (*connection.Link, error) {
	at := p.servers.Current()
	k, err := connection.Connect(ctx, connection.Config{
		URL:       p.label,
		ClientID:  p.level + "~" + strconv.FormatUint(p.incarnation, 36) + suffix,
		User:      p.user,
		Password:  p.password,
		KeepAlive: p.keepAlive,
		Open: func(ctx context.Context) (net.Conn, error) {
			if p.dialer != nil {
				return p.dialer(ctx)
			}
			return p.servers.Dial(ctx, p.tls)
		},
		Will:    will,
		Receive: watched(p.log, receive),
	})
	if err != nil {
		p.servers.Next(at)
	}
	var denied *connection.DeniedError
	if errors.As(err, &denied) {
		err = &RefusedError{URL: p.label, User: p.user, unauthorized: denied.Unauthorized}
	}
	return k, err
}

// connectMain makes a link of the main lane: subscribed, checked for duplicates
// of this id, and announced, unless this is a participant without presence.
func (p *Participant) connectMain(ctx context.Context) (*connection.Link, error) {
	birth := p.directory.Connecting()
	at := p.servers.Current()
	will := p.will(birth)
	k, err := p.connectLane(ctx, "", will, p.receive)
	if err != nil && will.Topic != "" {
		err = p.whyRefused(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, k, birth); err != nil {
		p.servers.Next(at) // it is connected to, and does not serve
		k.Close(connection.Politeness)
		if p.counters.connects.Load() > 0 && errors.Is(err, ErrRefused) {
			// It was granted before. A cluster refuses while it has no leader.
			err = fmt.Errorf("%w: %s", ErrUnreachable, err.Error()) // not ErrRefused, which is final
		}
		return nil, err
	}
	return k, nil
}

// prepare subscribes again and announces the birth; nil for none. It has ConnectTimeout
// for each step and each subscription, not for all of them: where thousands come back at
// once everybody is slow, and who begins again makes that worse.
func (p *Participant) prepare(ctx context.Context, k *connection.Link, birth *discovery.Birth) error {
	steps := []func(context.Context, *connection.Link) error{p.subscribeInbox, p.directory.Listen, inTime(p.directory.Alone), p.resubscribe}
	if birth == nil {
		steps = steps[3:]
	} else {
		steps = append(steps, inTime(func(ctx context.Context, k *connection.Link) error {
			return k.Publish(&birth.Packet).Wait(ctx) // until the broker has it
		}))
	}
	for _, step := range steps {
		if err := step(ctx, k); err != nil {
			return p.joinError(err)
		}
	}
	return p.Err() // a rival may have shown up
}

// inTime bounds a step.
func inTime(step func(context.Context, *connection.Link) error) func(context.Context, *connection.Link) error {
	return func(ctx context.Context, k *connection.Link) error {
		ctx, cancel := context.WithTimeout(ctx, connection.ConnectTimeout)
		defer cancel()
		return step(ctx, k)
	}
}

func (p *Participant) subscribeInbox(ctx context.Context, k *connection.Link) error {
	return connection.SubscribeAll(ctx, k, []string{p.inbox.prefix + "+", p.directory.Topic()}, 1)
}

func (p *Participant) joinError(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrRefused), errors.Is(err, ErrDuplicateID), errors.Is(err, context.Canceled):
		return err
	case p.unannounced:
		return fmt.Errorf("%w: %s accepted the connection and does not answer: look into the broker's log: %w", ErrUnreachable, p.label, err)
	case errors.Is(err, ErrOffline):
		return fmt.Errorf("%w: %s closed the connection while participant %q announced itself: check that the broker's access rules let it write %s and read and write %s#", ErrUnreachable, p.label, p.id, p.directory.Topic(), p.inbox.prefix)
	}
	return fmt.Errorf("%w: %s accepted the connection, but does not acknowledge what participant %q announces: look into the broker's log, its disk may be full: %w", ErrUnreachable, p.label, p.id, err)
}
