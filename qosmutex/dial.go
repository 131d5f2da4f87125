package qosmutex

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

// Client takes the locks of a topic through a participant that serves them (`pubsub-node
// broker`, `pubsub-node serve`), by the JSON protocol of docs/clients.md. It has no place
// in the tree: taking a free lock costs one message and its answer. Create one with Dial.
type Client struct {
	options
	name     string
	p        *pubsub.Participant
	levels   []string      // of requests
	patience protocol.Time // how long servers are looked for until there is said to be none

	// mu is held while an answer or a tick is handled. Nothing under it blocks.
	mu       sync.Mutex
	calls    map[string]*call  // by id
	warnings map[string]string // by resource
	losses   int               // of the connection
	offline  bool              // as the participant has told last
	server   string            // that answered last
	search   search
	paced    protocol.Time // when all that was said would be said in the server's pace
	wakes    protocol.Time // when run looks again
	closing  bool
	ended    bool
	err      error
	settled  chan struct{} // closed and replaced when a call has ended

	ctx       context.Context // ends with the client
	finish    context.CancelFunc
	wake      chan struct{}
	stops     []func()
	running   sync.WaitGroup
	closeOnce sync.Once

	count clientCounters
}

// Dial makes participant p, which may be Unannounced, a client of the lock topic. It
// returns when answers can arrive; the context bounds only that. Whether a server exists
// shows with the first request: if no server is announced, Lock fails with ErrNoServer
// after about two seconds. It fails with pubsub.ErrRefused if the embedded broker reports
// that the user of p may only read.
//
// A server accepts 256 requests of p in one lock topic, including those that hold. Further
// requests of one Client wait locally, the most important first, so goroutines should share
// a Client.
//
// Close the client before p. If p ends first, that is like a crash: its requests end ten
// seconds after its last message, or much sooner with [LastWill], and others wait until
// then.
//
// Member-only options are rejected. Errors wrap ErrInvalidName, ErrInvalidConfig,
// ErrTimeout or ErrCanceled, ErrClosed, and pubsub.ErrRefused if the broker does not let p
// read its answers.
func Dial(ctx context.Context, p *pubsub.Participant, name string, opts ...Option) (*Client, error) {
	o, err := optionsOf(opts)
	if err == nil {
		err = o.checkClient(p.ID())
	}
	if err == nil {
		err = checkServed(name)
	}
	if err == nil && p.Err() != nil {
		err = participantEnded(name, p)
	}
	if err != nil {
		return nil, err
	}
	if o.session == "" {
		o.session = newSession()
	}
	c := &Client{
		options: o, name: name, p: p, levels: []string{"lock", name, "client", p.ID(), "request"},
		calls: map[string]*call{}, warnings: map[string]string{}, settled: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if err := c.count.register(c); err != nil {
		return nil, err
	}
	c.ctx, c.finish = context.WithCancel(context.Background())
	if err := c.listen(ctx); err != nil {
		c.finish()
		c.count.unregister()
		return nil, err
	}
	c.running.Go(c.run)
	return c, nil
}

// listen subscribes to the answers. How long that takes is a measure for the broker.
func (c *Client) listen(ctx context.Context) error {
	begun := time.Now()
	stop, err := c.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", c.name, "client", c.p.ID(), "answer"}, c.heard)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return interrupted(ctx, fmt.Sprintf("answers for lock topic %q from %s", c.name, c.p.URL()))
	case errors.Is(err, pubsub.ErrClosed):
		return c.participantEnded()
	case errors.Is(err, pubsub.ErrRefused):
		return fmt.Errorf("qosmutex: lock topic %q: participant %q may not read its answers: with users, a client is named like its user: %w", c.name, c.p.ID(), err)
	default:
		return err
	}
	c.patience = patienceAfter(time.Since(begun))
	c.stops = append(c.stops, stop, c.p.Notify(c.reconnected))
	return nil
}

// newSession names one run of a client.
func newSession() string { return rand.Text()[:16] }

// lastCall numbers the requests of all clients of this process, as some share a session.
var lastCall atomic.Uint64

// LastWill returns two options that belong together. With the first, pubsub.Join leaves a
// last will: when the connection is lost, waiting requests of participant id end at once,
// and its holds end as soon as it can no longer rely on them. It requires
// pubsub.Unannounced. With the second, Dial makes its requests in the session that the will
// names; several calls of Dial may use it. Without both, requests end ten seconds after the
// client's last message.
func LastWill(id string) (join pubsub.Option, dial Option) {
	session := newSession()
	gone := jsonlock.New(jsonlock.Gone)
	gone.Session = session
	payload, _ := gone.Encode() // all of it is known here
	join = pubsub.WithWill([]string{"lock", servedBy, "client", id, "request"}, payload)
	return join, func(o *options) error {
		o.session, o.willOf = session, id
		return nil
	}
}

// servedBy is the lock topic of those that serve; the end of a session that is said there
// counts in all.
const servedBy = "gateway"

// checkServed refuses names of lock topics that nobody serves.
func checkServed(name string) error {
	if name == servedBy || slices.Contains(reserved, name) {
		return fmt.Errorf("%w: lock topic %q has a meaning of its own in the protocol, as %s have: take another name", ErrInvalidName, name,
			strings.Join(append([]string{servedBy}, reserved...), ", "))
	}
	return checkTopicName(name)
}

// checkClient refuses what only a member can have: a client would ignore it.
func (o *options) checkClient(id string) error {
	var errs []error
	for _, of := range []struct {
		option string
		given  bool
	}{
		{"Create", o.create},
		{"WithRegister", o.register != nil && !o.create},
		{"WithModels", o.givenModels},
		{"WithResources or WithOpenResources", o.givenResources},
		{"WithTiming", o.givenTiming},
		{"WithParent", o.parent != ""},
		{"WithFanout", o.fanout != 0},
		{"WithTrustedWills", o.trust},
		{"Resume", o.resumes},
	} {
		if of.given {
			errs = append(errs, fmt.Errorf("%w: %s is for members: give it to Open, a client takes what is in force", ErrInvalidConfig, of.option))
		}
	}
	if o.willOf != "" && o.willOf != id {
		errs = append(errs, fmt.Errorf("%w: LastWill(%q) with participant %q: give it the id of Join", ErrInvalidConfig, o.willOf, id))
	}
	return errors.Join(errs...)
}

// Name returns the name of the lock topic.
func (c *Client) Name() string {
	if c == nil || c.p == nil {
		return ""
	}
	return c.name
}

func (c *Client) now() protocol.Time { return c.clock() }

// Done is closed when the client has ended, by Close or because the participant ended;
// Err then says why.
func (c *Client) Done() <-chan struct{} {
	if c == nil || c.p == nil {
		return ended
	}
	return c.ctx.Done()
}

// Err returns nil while the client is open, and an error that wraps ErrClosed
// afterwards.
func (c *Client) Err() error {
	if err := c.made(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Client) closedError() error {
	if c.p.Err() != nil {
		return c.participantEnded()
	}
	return fmt.Errorf("%w: lock topic %q: Dial it again", ErrClosed, c.name)
}

func (c *Client) participantEnded() error { return participantEnded(c.name, c.p) }

// Close releases the client's holds, cancels its requests and ends it. It waits, as long as
// ctx allows, until the server has acknowledged that. A server drops requests that are not
// renewed for ten seconds, so Close waits at most about as long, and at most three seconds
// for a connection. It then returns nil, and whatever the server was not told expires
// there: a hold when it is no longer valid, at most a TTL after its last renewal, and with
// LastWill a waiting request when the broker detects that the connection is lost. If ctx
// ends first, the error wraps ErrTimeout or ErrCanceled. If no server has ever answered,
// nothing was held, and Close waits for half a second, or longer at a slow broker. Waiting
// calls return an error that wraps ErrClosed. Close may be called again, and then returns
// nil.
func (c *Client) Close(ctx context.Context) (err error) {
	if c == nil || c.p == nil {
		return nil
	}
	c.closeOnce.Do(func() {
		c.depart()
		err = c.awaitSettled(ctx)
		c.end(c.closedError())
		for _, stop := range c.stops {
			stop()
		}
		c.running.Wait()
		c.count.unregister()
	})
	return err
}

// depart gives everything back.
func (c *Client) depart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.ended {
		return
	}
	for _, k := range c.inOrder() {
		if k.hold.phase.Load() == waiting {
			c.fail(k, c.closedError())
		}
		k.hold.endHeld(released)
		if !k.releasing {
			c.release(k)
		}
	}
	c.wakeBy(c.clock()) // what waited to be told without a connection need not any longer
}

// awaitSettled returns when no call is left: the server has answered its end, or has
// forgotten it. The ends of requests that nobody has answered are said, and not waited for
// longer than a server that is there takes: one that reads them later reads both.
func (c *Client) awaitSettled(ctx context.Context) error {
	c.mu.Lock()
	silence := time.After(partingWait + time.Duration(c.patience) - searchWait)
	c.mu.Unlock()
	outage := time.After(offlineWait)
	for {
		c.mu.Lock()
		over, settled := c.ended || len(c.calls) == 0, c.settled
		c.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-settled:
		case <-silence:
			if c.unheard() {
				return nil
			}
		case <-outage:
			if !c.p.Connected() {
				return nil
			}
			outage = time.After(offlineWait)
		case <-c.ctx.Done():
			return nil
		case <-ctx.Done():
			return interrupted(ctx, fmt.Sprintf("an answer of the server of lock topic %q, that what was held is free", c.name))
		}
	}
}

// unheard reports whether no server has ever answered this client.
func (c *Client) unheard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		if k.known {
			return false
		}
	}
	return c.server == ""
}

// end ends the client for good: what is still held is lost, waiting requests end.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	for _, k := range c.calls {
		if k.hold.phase.Load() == waiting {
			c.fail(k, err)
		}
		c.lose(k)
	}
	clear(c.calls)
	c.finish()
}
