package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Participant is a member of a domain, connected to its broker. It reconnects
// by itself; see Notify. All methods may be called from several goroutines.
type Participant struct {
	options
	id, level   string // level is the encoded id
	root        string
	servers     servers
	label       string // the URL as given
	incarnation uint64

	ctx  context.Context // ends with the participant; the cause is Err
	end  context.CancelCauseFunc
	wg   sync.WaitGroup
	done chan struct{}

	main     *lane
	refusals int // attempts to reconnect that ended so, in a row; of the main lane's goroutine
	sideOnce sync.Once
	side     *lane

	self     self
	inbox    inbox
	peers    peers
	exchange exchange
	answers  answers
	counters counters

	mu       sync.Mutex
	closing  bool
	watchers map[*func(bool)]struct{}
}

// maxRefusals is how often a reconnection is given up because a subscription is not
// granted again, until the participant does without it; ten seconds of back-offs, in
// which a cluster elects a leader.
const maxRefusals = 8

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

// Join connects the participant id to the broker at rawURL (mqtt://, mqtts://,
// tcp://, ssl://, ws:// or wss://; host:port alone is mqtt) and announces its
// birth. It blocks until the participant is connected, announced and listening
// on its inbox, or ctx ends; ctx bounds the joining, not the participant. It
// does not retry.
//
// A cluster is given by the URLs of its servers, separated by commas: Join tries
// each once, from the first, and when a connection is lost the same one is tried
// again and then the others in turn. They must be one broker: what is published at
// one arrives at the others, retained messages too.
//
// Errors wrap ErrInvalid (id, URL or option), ErrUnreachable, ErrRefused
// (credentials or access rules) or ErrDuplicateID. An id is 1 to 128 bytes of
// UTF-8 and belongs to one live process: if another one answers under it, Join
// fails, and if two join at the same instant the one with the older incarnation
// stays.
func Join(ctx context.Context, rawURL, id string, opts ...Option) (*Participant, error) {
	p, err := newParticipant(rawURL, id, opts)
	if err != nil {
		return nil, err
	}
	if err := p.register(); err != nil {
		return nil, err
	}
	k, err := p.connectMain(ctx)
	for range len(p.servers.urls) - 1 {
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrDuplicateID) {
			break
		}
		k, err = p.connectMain(ctx)
	}
	if err != nil {
		p.end(err)
		p.awaitEnd()
		return nil, err
	}
	p.main.up(k, false)
	p.wg.Go(func() { p.main.run(p.ctx, k) })
	context.AfterFunc(p.ctx, p.awaitEnd)
	return p, nil
}

func newParticipant(rawURL, id string, opts []Option) (*Participant, error) {
	p := &Participant{options: defaultOptions(), id: id, label: rawURL, incarnation: newIncarnation(), done: make(chan struct{})}
	var err error
	if p.level, err = EncodeLevel(id); err != nil {
		return nil, fmt.Errorf("participant id: %w", err)
	}
	for _, o := range opts {
		if err := o(&p.options); err != nil {
			return nil, err
		}
	}
	if p.dialer == nil {
		if p.servers.urls, err = parseURLs(rawURL); err != nil {
			return nil, err
		}
	}
	prefix, _ := EncodeLevel(p.prefix) // checked by the options
	domain, _ := EncodeLevel(p.domain)
	p.root = prefix + "/v1/" + domain
	p.log = p.log.With("participant", id)
	p.ctx, p.end = context.WithCancelCause(context.Background())
	p.inbox.prefix = p.root + "/node/" + p.level + "/"
	p.self.init(p)
	p.peers.p = p
	p.exchange.init(p)
	p.main = &lane{
		name:      "main",
		out:       newFIFO(),
		establish: p.connectMain,
		changed:   p.mainChanged,
		failed:    p.mainFailed,
		dropped:   func(n int) { p.counters.dropped[dropDisconnect].Add(uint64(n)) },
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
func (p *Participant) connectLane(ctx context.Context, suffix string, will packet, receive func(string, []byte, bool)) (*link, error) {
	at := p.servers.current()
	k, err := connectLink(ctx, linkConfig{
		url:       p.label,
		clientID:  p.level + "~" + strconv.FormatUint(p.incarnation, 36) + suffix,
		user:      p.user,
		password:  p.password,
		keepAlive: p.keepAlive,
		open: func(ctx context.Context) (net.Conn, error) {
			if p.dialer != nil {
				return p.dialer(ctx)
			}
			return p.servers.dial(ctx, p.tls)
		},
		willTopic: will.topic,
		will:      will.payload,
		receive:   receive,
	})
	if err != nil {
		p.servers.next(at)
	}
	return k, err
}

// connectMain makes a link of the main lane: subscribed, checked for duplicates
// of this id, and announced.
func (p *Participant) connectMain(ctx context.Context) (*link, error) {
	birth := p.self.begin()
	at := p.servers.current()
	k, err := p.connectLane(ctx, "", birth.death, p.receive)
	if err != nil {
		return nil, err
	}
	if err := p.announce(ctx, k, birth); err != nil {
		p.servers.next(at) // it is connected to, and does not serve
		k.close(politeness)
		if p.counters.connects.Load() > 0 && errors.Is(err, ErrRefused) {
			// It was granted before. A cluster refuses while it has no leader.
			err = fmt.Errorf("%w: %s", ErrUnreachable, err.Error()) // not ErrRefused, which is final
		}
		return nil, err
	}
	return k, nil
}

func (p *Participant) announce(ctx context.Context, k *link, birth *birth) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := subscribeAll(ctx, k, []string{p.inbox.prefix + "+", p.self.topic}); err != nil {
		return p.joinError(err)
	}
	if err := p.subscribeAsk(ctx, k); err != nil {
		return p.joinError(err)
	}
	if err := p.self.alone(ctx, k); err != nil {
		return p.joinError(err)
	}
	if err := p.main.resubscribe(ctx, k); err != nil {
		var r *refusal
		if !errors.As(err, &r) {
			return p.joinError(err)
		}
		if p.refusals++; p.refusals < maxRefusals {
			return err
		}
		p.log.Error("a subscription was not granted again", "filter", r.filter, "error", err)
	} else {
		p.refusals = 0
	}
	b := birth.packet
	if err := k.publish(b.topic, b.payload, b.qos, b.retain).wait(ctx); err != nil {
		return p.joinError(err)
	}
	return p.Err() // a rival may have shown up
}

func (p *Participant) joinError(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrRefused), errors.Is(err, ErrDuplicateID), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, ErrOffline):
		return fmt.Errorf("%w: %s closed the connection while participant %q announced itself: check that the broker's access rules let it write %s and read and write %s#", ErrUnreachable, p.label, p.id, p.self.topic, p.inbox.prefix)
	}
	return fmt.Errorf("%w: %s accepted the connection, but does not acknowledge what participant %q announces: look into the broker's log, its disk may be full: %w", ErrUnreachable, p.label, p.id, err)
}

// receive routes what arrives on the main lane.
func (p *Participant) receive(topic string, payload []byte, retained bool) {
	if from, ok := strings.CutPrefix(topic, p.inbox.prefix); ok {
		p.letter(from, payload)
		return
	}
	if from, ok := strings.CutPrefix(topic, p.root+"/ask/"); ok {
		if id, err := DecodeLevel(from); err == nil {
			p.asked(id)
		}
		return
	}
	if topic == p.self.topic {
		p.self.seen(payload)
	}
	if below, ok := strings.CutPrefix(topic, p.root+"/"); ok {
		p.main.routes.dispatch(below, payload, retained)
	}
}

// mainFailed ends the participant on errors that no retry fixes.
func (p *Participant) mainFailed(err error) {
	p.log.Info("reconnecting failed", "error", err)
	if final(err) {
		p.end(err)
	}
}

// final reports whether no other attempt fixes err.
func final(err error) bool { return errors.Is(err, ErrRefused) || errors.Is(err, ErrDuplicateID) }

func (p *Participant) mainChanged(up, again bool) {
	if up {
		p.counters.connects.Add(1)
		p.self.connected()
	} else {
		p.self.lost()
	}
	if !again {
		return
	}
	p.log.Info("connection", "up", up)
	p.peers.changed(up)
	if up {
		p.exchange.announceAll()
		if p.peers.following.Load() {
			p.ask()
		}
	}
	p.mu.Lock()
	var call []func(bool)
	for w := range p.watchers {
		call = append(call, *w)
	}
	p.mu.Unlock()
	for _, f := range call {
		f(up)
	}
}

// awaitEnd closes done when everything has ended; it runs once ctx has.
func (p *Participant) awaitEnd() {
	p.mu.Lock()
	p.closing = true // nothing is started from here on
	p.mu.Unlock()
	p.wg.Wait()
	if p.metrics != nil {
		p.metrics.Unregister(&p.counters)
	}
	close(p.done)
}

// start runs f until the participant ends; f must return when p.ctx does. It
// reports false when the participant has ended.
func (p *Participant) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.ctx.Err() != nil {
		return false
	}
	p.wg.Go(f)
	return true
}

// ID returns the id given to Join.
func (p *Participant) ID() string { return p.id }

// Incarnation identifies this start of the participant: wall-clock microseconds
// at Join, larger than that of every earlier start, the same over reconnections.
func (p *Participant) Incarnation() uint64 { return p.incarnation }

// Root returns R, which all topics of the domain begin with, for example
// "padme/v1/default".
func (p *Participant) Root() string { return p.root }

// URL returns the URL given to Join.
func (p *Participant) URL() string { return p.label }

// Connected reports whether the participant is connected and announced.
func (p *Participant) Connected() bool {
	k, _ := p.main.current()
	return k != nil && !k.gone()
}

// Notify has f called after every loss of the connection (false) and after
// every completed reconnection (true), when all subscriptions and the birth
// stand again. What was accepted by Send or PublishRaw on Main and not delivered
// before a loss is gone: send it again on true. Calls come one at a time; f must
// not block. After stop returns, no new call begins.
func (p *Participant) Notify(f func(up bool)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers == nil {
		p.watchers = map[*func(bool)]struct{}{}
	}
	key := &f
	p.watchers[key] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, key)
	}
}

// Done is closed when the participant has ended for good: by Close, or because
// of an error that no reconnection fixes (see Err).
func (p *Participant) Done() <-chan struct{} { return p.done }

// Err returns nil while the participant lives, then why it ended: ErrClosed
// after Close, or an error that wraps ErrRefused or ErrDuplicateID.
func (p *Participant) Err() error {
	if p.ctx.Err() == nil {
		return nil
	}
	return context.Cause(p.ctx)
}

// Close sends what waits in the queues, publishes the participant's death,
// disconnects, and waits until everything it started has ended. ctx bounds the
// sending and the waiting; when it ends first, Close drops the rest, returns
// ctx's error, and a further Close waits again. Close may be repeated.
func (p *Participant) Close(ctx context.Context) error {
	p.mu.Lock()
	first := !p.closing
	p.closing = true
	side := p.side
	p.mu.Unlock()
	if first {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		p.farewell(ctx, side)
		cancel()
		p.end(ErrClosed)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pubsub: closing participant %q: %w", p.id, context.Cause(ctx))
	}
}

// farewell empties the queues and publishes death, as far as there is a
// connection.
func (p *Participant) farewell(ctx context.Context, side *lane) {
	if side != nil {
		connected, cancel := p.main.connected(ctx)
		if _, err := side.online(connected); err == nil {
			_ = side.flush(connected)
		}
		cancel()
	}
	p.exchange.leave(ctx)
	if death, ok := p.self.leave(); ok {
		_ = p.main.out.put(death)
		// Whoever watches has the death; brokers need not keep it for ever for
		// every participant that came once.
		_ = p.main.out.put(packet{topic: death.topic, qos: 1, retain: true})
	}
	_ = p.main.flush(ctx)
}
