package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
)

// A Participant is a member of a domain, connected to its broker. It reconnects
// automatically; see Notify. All methods may be called from several goroutines. A
// Participant that Join has not returned, such as nil, behaves like one that has ended.
type Participant struct {
	options
	id, level   string // level is the encoded id
	root        string
	servers     connection.Servers
	label       string // the URL as given
	incarnation uint64

	ctx  context.Context // ends with the participant; the cause is Err
	end  context.CancelCauseFunc
	wg   sync.WaitGroup
	done chan struct{}

	main     *connection.Lane
	queue    *connection.Queue // of main
	refusals int               // attempts to reconnect that ended so, in a row; of the main lane's goroutine
	side     extra
	crowd    extra

	inbox     inbox
	directory *discovery.Directory
	exchange  exchange
	counters  counters

	mu       sync.Mutex
	closing  bool
	watchers map[*func(bool)]struct{}
}

// maxRefusals is how often a reconnection is given up because a subscription is not
// granted again, until the participant does without it; ten seconds of back-offs, in
// which a cluster elects a leader.
const maxRefusals = 16

// receive routes what arrives on the main lane.
func (p *Participant) receive(topic string, payload []byte, retained bool) {
	if !p.unannounced && p.addressed(topic, payload) {
		return
	}
	if below, ok := strings.CutPrefix(topic, p.root+"/"); ok {
		p.main.Dispatch(below, payload, retained)
	}
}

// addressed handles what is sent to a participant that has a presence, and reports
// whether it is nobody else's business.
func (p *Participant) addressed(topic string, payload []byte) bool {
	if from, ok := strings.CutPrefix(topic, p.inbox.prefix); ok {
		p.arrived(from, payload)
		return true
	}
	if from, ok := strings.CutPrefix(topic, p.root+"/ask/"); ok {
		if id, err := DecodeLevel(from); err == nil {
			p.directory.Asked(id, "")
		}
		return true
	}
	if topic == p.directory.Topic() {
		p.directory.Seen(payload)
	}
	return false
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
	}
	p.directory.Changed(up, again)
	if !again {
		return
	}
	p.log.Info("connection", "up", up)
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

// ID returns the id that was passed to Join.
func (p *Participant) ID() string { return p.orEnded().id }

// Incarnation identifies this start of the participant: wall-clock microseconds at Join,
// larger than that of every earlier start, and unchanged by reconnections.
func (p *Participant) Incarnation() uint64 { return p.orEnded().incarnation }

// Root returns R, with which all topics of the domain begin, for example
// "padme/v1/default".
func (p *Participant) Root() string { return p.orEnded().root }

// URL returns the URL that was passed to Join.
func (p *Participant) URL() string { return p.orEnded().label }

// Connected reports whether the participant is connected and announced.
func (p *Participant) Connected() bool {
	k, _ := p.orEnded().main.Current()
	return k != nil && !k.Gone()
}

// Notify calls f after every loss of the connection (false), and after every completed
// reconnection (true), when all subscriptions and the birth are restored. A message that
// Send or PublishRaw on Main accepted and that was not delivered before a loss is lost:
// send it again on true. Calls come one at a time; f must not block. After stop returns, no
// new call begins.
func (p *Participant) Notify(f func(up bool)) (stop func()) {
	p = p.orEnded()
	if f == nil {
		return func() {}
	}
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

// Done is closed when the participant has ended for good: by Close, or because of an error
// that a reconnection cannot fix (see Err).
func (p *Participant) Done() <-chan struct{} { return p.orEnded().done }

// Err returns nil while the participant lives, and then why it ended: ErrClosed after
// Close, or an error that wraps ErrRefused or ErrDuplicateID.
func (p *Participant) Err() error {
	p = p.orEnded()
	if p.ctx.Err() == nil {
		return nil
	}
	return context.Cause(p.ctx)
}

// Close sends what is queued, closes the writers and readers, publishes the participant's
// death, disconnects, and waits until everything that the participant started has ended.
// Every writer looks for late joiners and waits until its readers have acknowledged
// everything, as Writer.Close does, for a little less time than ctx allows; if the
// connection is lost, also for it to come back. Close returns an ErrUndelivered for each
// writer that was not acknowledged completely. ctx bounds the sending and the waiting. When
// it ends first, Close drops the rest and returns ctx's error too, the broker publishes the
// death, and another Close waits again. If the broker does not respond, the connection ends
// within two keep-alives, whatever ctx allows. Close may be repeated.
func (p *Participant) Close(ctx context.Context) error {
	p = p.orEnded()
	p.exchange.meetLateJoiners(ctx, p.exchange.endpoints()...) // which starts what closing forbids
	p.mu.Lock()
	first := !p.closing
	p.closing = true
	side := p.side.lane
	p.mu.Unlock()
	var undelivered, untold error
	if first {
		if undelivered, untold = p.farewell(ctx, side); untold != nil {
			p.main.HangUp()
		}
		p.end(ErrClosed)
	}
	select {
	case <-p.done:
		if untold != nil && !errors.Is(untold, ErrOffline) {
			untold = fmt.Errorf("pubsub: closing participant %q: %w: not all that it wrote is with the broker", p.id, untold)
			return errors.Join(undelivered, untold)
		}
		return undelivered
	case <-ctx.Done():
		return errors.Join(undelivered, fmt.Errorf("pubsub: closing participant %q: %w", p.id, context.Cause(ctx)))
	}
}

// farewell empties the queues and publishes death, as far as there is a
// connection. It returns what writers could not deliver, and why the broker has not
// acknowledged the death.
func (p *Participant) farewell(ctx context.Context, side *connection.Lane) (undelivered, untold error) {
	if side != nil {
		connected, cancel := p.main.Connected(ctx)
		if _, err := side.Online(connected); err == nil {
			_ = side.Flush(connected)
		}
		cancel()
	}
	undelivered = p.exchange.leave(ctx)
	behind := p.exchange.ended.Lacking(discovery.MaxEnded)
	if death, ok := p.directory.Leave(behind); ok {
		_ = p.main.Put(death)
		if len(behind) == 0 { // those that watch have heard it, and a broker need not keep one of each participant that ever came
			_ = p.main.Put(connection.Packet{Topic: death.Topic, QoS: 1, Retain: true})
		}
	}
	return undelivered, p.main.Flush(ctx)
}
