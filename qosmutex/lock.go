package qosmutex

import (
	"context"
	"fmt"
	"slices"
	"time"

	"padme/qosmutex/protocol"
)

// Lock waits until this participant holds resource, or one of the declared resources for
// Any, and returns the hold. The context bounds only the waiting. When it ends, the request
// is canceled and leaves nothing behind.
//
// Errors wrap ErrTimeout or ErrCanceled (and context.Cause), ErrUndeclared, ErrInvalidName,
// ErrInvalidConfig, ErrFull or ErrClosed, ErrUnsupported if the algorithm has no such
// request, and with WithDeadline ErrDeadlineUnattainable, ErrDeadlineMissed, or
// ErrUnsupported for Any where deadlines are promised. A goroutine that locks a resource
// that it already holds waits for itself.
func (t *Topic) Lock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return t.acquire(ctx, context.Background(), resource, false, opts)
}

// TryLock is Lock for a resource that is free now; otherwise the error wraps ErrBusy. It
// waits for the root's answer, so ctx bounds that. A root that does not know whether the
// resource is held, for example because it has just started, answers once it knows: after
// at most a grace of the topic's TTL.
func (t *Topic) TryLock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return t.acquire(ctx, context.Background(), resource, true, opts)
}

// Do locks resource, runs f, and unlocks when f returns or panics. The context passed to f
// is canceled with cause ErrLost if the hold is lost, and Do then returns an error that
// wraps ErrLost even if f returned nil. If f is nil, the error wraps ErrInvalidConfig.
func (t *Topic) Do(ctx context.Context, resource string, f func(ctx context.Context, h *Hold) error, opts ...LockOption) error {
	if f == nil {
		return errNothingToDo
	}
	h, err := t.acquire(ctx, ctx, resource, false, opts)
	if err != nil {
		return err
	}
	return h.do(f)
}

// errNothingToDo refuses a Do before it takes the lock.
var errNothingToDo = fmt.Errorf("%w: Do without a function: give it what to run inside", ErrInvalidConfig)

// acquire asks for a resource and waits.
func (t *Topic) acquire(ctx, parent context.Context, resource string, try bool, opts []LockOption) (*Hold, error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx, t.what(resource))
	}
	r := requestOf(opts)
	h := t.newHold(parent, resource, &r)
	if err := t.ask(h, &r, try); err != nil {
		return nil, err
	}
	return t.wait(ctx, h, &r)
}

func requestOf(opts []LockOption) request {
	r := request{}
	for _, opt := range opts {
		if opt != nil {
			opt(&r)
		}
	}
	return r
}

func (t *Topic) newHold(parent context.Context, resource string, r *request) *Hold {
	return &Hold{of: t, parent: parent, resource: resource, client: r.client, priority: r.priority, fixed: r.fixed, note: r.note, requested: time.Now()}
}

// wait returns when a request is decided, or withdraws it.
func (t *Topic) wait(ctx context.Context, h *Hold, r *request) (*Hold, error) {
	return h.await(ctx, r, t.giveUp)
}

// await returns when a request is decided, or gives it up. giveUp returns false if the
// request was decided without a hold in the meantime.
func (h *Hold) await(ctx context.Context, r *request, giveUp func(*Hold) bool) (*Hold, error) {
	if h.ready != nil {
		expired, stop := r.expiry()
		defer stop()
		select {
		case <-h.ready:
		case <-expired:
			if giveUp(h) {
				return nil, missed(h.what())
			}
		case <-ctx.Done():
			if giveUp(h) {
				return nil, interrupted(ctx, h.what())
			}
		}
	}
	if h.phase.Load() == failed {
		return nil, h.err
	}
	return h, nil
}

// what names the resource in an error.
func (h *Hold) what() string { return what(h.resource, h.of.Name()) }

func (t *Topic) what(resource string) string { return what(resource, t.name) }

func what(resource, topic string) string { return fmt.Sprintf("%q of lock topic %q", resource, topic) }

// ask puts the request to the machine, which may answer at once.
func (t *Topic) ask(h *Hold, r *request, try bool) error {
	if err := r.check(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return t.closedError()
	}
	if err := t.checkDeclared(h.resource); err != nil {
		return err
	}
	t.caution(h.resource)
	if h.try = try; try || !r.deadline.IsZero() {
		h.options = r
	}
	if err := t.line(h, r, try); err != nil {
		return err
	}
	if h.phase.Load() == waiting {
		h.ready = make(chan struct{})
	}
	return nil
}

// line puts a request in line under a number of its own. The caller holds mu.
func (t *Topic) line(h *Hold, r *request, try bool) error {
	within, hold := r.input(h.requested)
	if !r.deadline.IsZero() && within <= 0 {
		return missed(t.what(h.resource))
	}
	t.lastRef++
	h.ref = t.lastRef
	if !h.fixed {
		h.priority = t.priority
	}
	t.calls[h.ref], t.used = h, h.requested
	t.report(h.event(EventRequested, h.requested))
	if err := t.step(protocol.Input{
		Kind: protocol.Acquire, Ref: h.ref, Resource: h.resource, Priority: h.priority, Fixed: h.fixed, Try: try,
		Client: h.client, Within: within, Hold: hold,
	}); err != nil && h.phase.Load() == waiting {
		delete(t.calls, h.ref)
		return fmt.Errorf("qosmutex: asking for %s: %w", t.what(h.resource), err)
	}
	return nil
}

// checkDeclared refuses at once what the topic does not have. The caller holds
// mu.
func (t *Topic) checkDeclared(resource string) error {
	s := &t.status.Settings
	if resource == Any {
		if len(s.Resources) == 0 {
			return t.denied(resource, protocol.ReasonNoResource)
		}
		return nil
	}
	if _, ok := slices.BinarySearch(s.Resources, resource); ok {
		return nil
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	switch {
	case !s.Open:
		return undeclared(t.name, resource, s.Resources)
	case resource == t.name && t.openByDefault():
		return ownName(t.name)
	}
	return nil
}

// openByDefault reports whether any name is a resource because nobody has said which there
// are. The caller holds mu.
func (t *Topic) openByDefault() bool {
	s := &t.status.Settings
	return s.Open && s.ResourcesBy == ""
}

// Warning returns a sentence for people who lock resource, or "" if there is nothing to
// warn of. If no participant has declared the resources of a topic, every name is a
// resource, so two names for the same thing do not exclude each other. In such a topic
// Warning says that for every name but DefaultResource. Lock logs it once for the topic.
func (t *Topic) Warning(resource string) string {
	if t.made() != nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.warning(resource)
}

func (t *Topic) warning(resource string) string {
	s := &t.status.Settings
	if _, ok := slices.BinarySearch(s.Resources, resource); ok || resource == DefaultResource || resource == Any || !t.openByDefault() {
		return ""
	}
	return fmt.Sprintf("nobody has declared which resources lock %q has, so %q is one of its own, beside %q: if any name is to be one, say so with: pubsub-node lock create %s --open; if these are all, with --resources %s",
		t.name, resource, DefaultResource, shellWord(t.name), shellWord(DefaultResource+","+resource))
}

// caution logs the warning of the first resource that has one. The caller holds mu.
func (t *Topic) caution(resource string) {
	if t.served || t.cautioned {
		return
	}
	if w := t.warning(resource); w != "" {
		t.cautioned = true
		t.log.Warn(w)
	}
}

// giveUp withdraws a request. It returns false if the request was decided
// without a hold in the meantime; a hold that came too late is left.
func (t *Topic) giveUp(h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch h.phase.Load() {
	case waiting:
		delete(t.calls, h.ref)
		t.report(h.event(EventWithdrawn, time.Now()))
		_ = t.step(protocol.Input{Kind: protocol.Withdraw, Ref: h.ref, Resource: h.resource})
	case failed:
		return false
	default:
		if t.calls[h.ref] == h {
			t.leave(h, t.clock())
		}
	}
	return true
}

// granted lets a request in. One whose caller has gone is left at once.
func (t *Topic) granted(g *protocol.Granted) {
	h := t.calls[g.Ref]
	if h == nil {
		t.orphans = append(t.orphans, g.Ref)
		return
	}
	h.resource, h.fence, h.priority = g.Resource, g.Fence, g.Priority
	h.entered = time.Now()
	t.inside[g.Ref] = h
	t.noteHold(h)
	t.metrics.entries++
	r := h.event(EventGranted, h.entered)
	r.waited, r.how, r.clock = h.entered.Sub(h.requested), g.How, g.Turn
	observe(t.metrics.waiting, r.waited.Seconds())
	h.first = g.Until
	t.setUntil(h)
	h.phase.Store(held)
	if h.ready != nil {
		close(h.ready)
	}
	t.report(r)
}

// refused ends a request without a hold.
func (t *Topic) refused(d *protocol.Denial) {
	h := t.calls[d.Ref]
	if h == nil {
		return
	}
	if h.options != nil && (d.Reason == protocol.ReasonBusy || d.Reason == protocol.ReasonUnattainable) && t.unsure(h.resource) {
		t.unanswered = append(t.unanswered, unanswered{h, h.ref})
		return
	}
	delete(t.calls, d.Ref)
	r := h.event(EventDenied, time.Now())
	r.reason = d.Reason.String()
	t.report(r)
	t.fail(h, t.denied(h.resource, d.Reason))
}

func (t *Topic) fail(h *Hold, err error) {
	h.err = err
	h.phase.Store(failed)
	if h.ready != nil {
		close(h.ready)
	}
}

// unanswered is a request under this number that the root refused while it did not know who
// holds: a try, or one with a deadline.
type unanswered struct {
	hold *Hold
	ref  uint64
}

// unsure reports whether this participant is a root that does not know who has the token of
// resource: then "busy" may be untrue, and so that a deadline cannot be promised. The caller
// holds mu.
func (t *Topic) unsure(resource string) bool {
	if resource == Any {
		return slices.ContainsFunc(t.status.Settings.Resources, t.unsure)
	}
	r, ok := t.described(resource)
	return ok && r.Lost
}

// askAgain takes a request that the root could not answer and asks again, once it can. It
// reports whether there was one. The caller holds mu.
func (t *Topic) askAgain() bool {
	for i, u := range t.unanswered {
		h := u.hold
		over := h.phase.Load() != waiting || h.ref != u.ref || t.calls[u.ref] != h
		if !over && t.unsure(h.resource) {
			continue
		}
		t.unanswered = slices.Delete(t.unanswered, i, i+1)
		if !over {
			t.report(h.event(EventWithdrawn, time.Now()))
			delete(t.calls, h.ref)
			if err := t.line(h, h.options, h.try); err != nil {
				t.fail(h, err)
			}
		}
		return true
	}
	return false
}
