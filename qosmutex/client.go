package qosmutex

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

const (
	// clientLease is for how long a request outlives the client's last sign of life at
	// the server: long enough for one of hundreds of processes that start on a busy
	// machine, and short, as a suspended client keeps others waiting for it.
	clientLease = jsonlock.DefaultLease
	// forgetting is how long that is at a server whose clock is slow.
	forgetting = protocol.Time(clientLease) * 102 / 100
	// firstRetry and lastRetry are how soon a message is repeated that is not answered.
	firstRetry = protocol.Time(250 * time.Millisecond)
	lastRetry  = protocol.Time(time.Second)
	// leastPause is the least time between two messages of one request.
	leastPause = protocol.Time(50 * time.Millisecond)
)

// call is a request at the server, from its first message until its end is known.
type call struct {
	id       string
	hold     *Hold
	asked    string // resource
	priority int64  // wanted
	try      bool
	deadline time.Time // zero: none
	stay     time.Duration

	releasing bool
	heldBack  bool          // it was not sent, as enough are at the server
	known     bool          // it was answered
	position  int           // in line, 1 is the next; 0: not known
	busy      string        // why it is not in line yet, as the server says
	losses    int           // of the connection when it was made
	first     protocol.Time // when it was first sent; 0: not yet
	renewed   protocol.Time // when its lease last began
	silent    protocol.Time // since when a message is unanswered; 0: none is
	next      protocol.Time // when something is to be said again
	tries     int           // messages since the last answer
	ends      protocol.Time // the server has forgotten it by then; of one that is over
}

// Lock waits until the client holds resource, or one of the declared resources for Any, and
// returns the hold. The context bounds only the waiting. When it ends, the request is
// canceled.
//
// Errors wrap ErrTimeout or ErrCanceled (and context.Cause), ErrNoServer, ErrUndeclared,
// ErrInvalidName, ErrInvalidConfig, ErrFull or ErrClosed, ErrCanceled if an operator ended
// the request, and with WithDeadline ErrDeadlineUnattainable, ErrDeadlineMissed, or
// ErrUnsupported for Any where deadlines are promised. An error that wraps ErrTimeout,
// ErrCanceled or ErrDeadlineMissed also wraps a *NotReadyError if the server could not
// grant, or no server answered.
func (c *Client) Lock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return c.acquire(ctx, context.Background(), resource, false, opts)
}

// TryLock is Lock for a resource that is free now; otherwise the error wraps ErrBusy. It
// waits for the server's answer, so ctx bounds that. A server that does not know for some
// seconds whether the resource is free denies the request with a *NotReadyError.
func (c *Client) TryLock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return c.acquire(ctx, context.Background(), resource, true, opts)
}

// Do locks resource, runs f, and unlocks when f returns or panics. The context passed to f
// is canceled with cause ErrLost if the hold is lost, and Do then returns an error that
// wraps ErrLost even if f returned nil. If f is nil, the error wraps ErrInvalidConfig.
func (c *Client) Do(ctx context.Context, resource string, f func(ctx context.Context, h *Hold) error, opts ...LockOption) error {
	if f == nil {
		return errNothingToDo
	}
	h, err := c.acquire(ctx, ctx, resource, false, opts)
	if err != nil {
		return err
	}
	return h.do(f)
}

// Ask queues a request for resource and returns without waiting for the grant. Call Wait
// once on each Request. The errors are those of Lock that are known at once.
func (c *Client) Ask(resource string, opts ...LockOption) (*Request, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	r := &Request{options: requestOf(opts)}
	r.hold = c.newHold(context.Background(), resource)
	if err := c.ask(r.hold, &r.options, false); err != nil {
		return nil, err
	}
	return r, nil
}

func (c *Client) newHold(parent context.Context, resource string) *Hold {
	return &Hold{of: c, parent: parent, resource: resource, requested: time.Now(), ready: make(chan struct{})}
}

func (c *Client) acquire(ctx, parent context.Context, resource string, try bool, opts []LockOption) (*Hold, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx, c.what(resource))
	}
	r := requestOf(opts)
	h := c.newHold(parent, resource)
	if err := c.ask(h, &r, try); err != nil {
		return nil, err
	}
	return c.wait(ctx, h, &r)
}

// wait returns when a request is decided, or takes it back.
func (c *Client) wait(ctx context.Context, h *Hold, r *request) (*Hold, error) {
	expired, stop := r.expiry()
	defer stop()
	select {
	case <-h.ready:
	case <-expired:
		if err := c.late(h, missed(c.what(h.resource))); c.giveUp(h) {
			return nil, err
		}
	case <-ctx.Done():
		if err := c.late(h, interrupted(ctx, c.what(h.resource))); c.giveUp(h) {
			return nil, err
		}
	}
	if h.phase.Load() == failed {
		return nil, h.err
	}
	return h, nil
}

// late is err, and why a request that waits is not even in line.
func (c *Client) late(h *Hold, err error) error {
	if why := c.notReady(h); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// notReady is why a request that waits is not even in line, as far as it is known; nil: it is.
func (c *Client) notReady(h *Hold) error {
	connected := c.p.Connected()
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.of(h)
	if k == nil {
		return nil
	}
	if !connected {
		return &NotReadyError{c.name, fmt.Sprintf("the broker at %s does not answer%s", c.p.URL(), k.before())}
	}
	if why := c.unanswered(k); why != "" {
		return &NotReadyError{c.name, why}
	}
	switch {
	case k.busy != "":
		return &NotReadyError{c.name, k.busy}
	case !k.known:
		return &NotReadyError{c.name, "nobody who serves locks has answered yet"}
	}
	return nil
}

// before says where the request was in line when a server answered last.
func (k *call) before() string {
	if k.position == 0 {
		return ""
	}
	return fmt.Sprintf("; before that it was at place %d in line", k.position)
}

// unanswered says why nobody may have answered anything that this client has asked. A broker
// drops what may not be written without a word.
func (c *Client) unanswered(k *call) string {
	if c.server != "" || k.known || k.silent == 0 || len(c.search.servers) == 0 || c.clock()-k.silent < protocol.Time(searchWait) {
		return ""
	}
	return fmt.Sprintf("%s has not answered for %v: it may serve other lock topics only, not %q: start \"pubsub-node serve%s %s\", or \"pubsub-node serve\" without names, which serves all; or it is busy; or the broker does not let participant %q write its requests, as the role observer does not: see its log",
		strings.Join(slices.Sorted(maps.Keys(c.search.servers)), " or "), time.Duration(c.clock()-k.silent).Round(time.Second),
		c.name, scopeOf(c.p).flags, shellWord(c.name), c.p.ID())
}

func (c *Client) what(resource string) string { return what(resource, c.name) }

// ask sends a request.
func (c *Client) ask(h *Hold, r *request, try bool) error {
	switch {
	case !r.deadline.IsZero() && !r.deadline.After(h.requested):
		return missed(c.what(h.resource))
	case r.client != "":
		return fmt.Errorf("%w: a client asks for itself: leave WithClient out, or Open lock topic %q as a member", ErrUnsupported, c.name)
	case r.note != nil:
		return fmt.Errorf("%w: a client keeps no notes: leave WithNote out, or Open lock topic %q as a member", ErrUnsupported, c.name)
	}
	if err := r.check(); err != nil {
		return err
	}
	if h.resource != Any {
		if err := checkResource(h.resource); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.closing {
		return c.closedError()
	}
	priority := c.options.priority
	if r.fixed {
		priority = r.priority
	}
	c.begin(&call{hold: h, asked: h.resource, priority: priority, try: try, deadline: r.deadline, stay: r.hold}, c.clock())
	return nil
}

// raise has the server make a request more important.
func (c *Client) raise(h *Hold, priority int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.of(h)
	switch {
	case k == nil || h.phase.Load() != waiting || priority == k.priority:
		return nil
	case priority > k.priority:
		return h.lessImportant(priority)
	}
	k.priority = priority
	if k.known && k.first != 0 { // else the first answer tells that it is not as important as it should be
		k.tries = 0
		c.say(k, c.clock())
	}
	return nil
}

// of is the call of a hold, nil if it is over.
func (c *Client) of(h *Hold) *call {
	if k := c.calls[strconv.FormatUint(h.ref, 10)]; k != nil && k.hold == h && !k.releasing {
		return k
	}
	return nil
}
