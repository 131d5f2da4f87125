package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/qosmutex/protocol"
)

// Lock waits until this participant is inside resource, or one of the declared
// resources for Any, and returns the hold. The context bounds the waiting only.
// When it ends, the request is withdrawn and leaves nothing behind.
//
// Errors wrap ErrTimeout or ErrCancelled (and context.Cause), ErrUndeclared,
// ErrInvalidName, ErrFull or ErrClosed, ErrUnsupported where the algorithm has no
// such request, and with WithDeadline ErrDeadlineUnattainable or ErrDeadlineMissed. A goroutine that locks a resource which it
// already holds waits for itself.
func (t *Topic) Lock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return t.acquire(ctx, context.Background(), resource, false, opts)
}

// TryLock is Lock for a resource that is free now; otherwise the error wraps
// ErrBusy. It waits for the answer of the root, so ctx counts as well.
func (t *Topic) TryLock(ctx context.Context, resource string, opts ...LockOption) (*Hold, error) {
	return t.acquire(ctx, context.Background(), resource, true, opts)
}

// Do runs f inside resource and unlocks when f returns or panics. The context
// that f gets is cancelled with cause ErrLost when the hold is lost, and then Do
// returns an error that wraps ErrLost even if f returned nil.
func (t *Topic) Do(ctx context.Context, resource string, f func(ctx context.Context, h *Hold) error, opts ...LockOption) (err error) {
	h, err := t.acquire(ctx, ctx, resource, false, opts)
	if err != nil {
		return err
	}
	defer func() {
		if e := h.Unlock(ctx); errors.Is(e, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, e)
		}
	}()
	return f(h.Context(), h)
}

// acquire asks for a resource and waits.
func (t *Topic) acquire(ctx, parent context.Context, resource string, try bool, opts []LockOption) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx, t.what(resource))
	}
	r := request{}
	for _, opt := range opts {
		opt(&r)
	}
	h := &Hold{topic: t, parent: parent, resource: resource, priority: r.priority, fixed: r.fixed, requested: time.Now()}
	if err := t.ask(h, &r, try); err != nil {
		return nil, err
	}
	if h.ready != nil {
		expired, stop := r.expiry()
		defer stop()
		select {
		case <-h.ready:
		case <-expired:
			if t.giveUp(h) {
				return nil, t.missed(resource)
			}
		case <-ctx.Done():
			if t.giveUp(h) {
				return nil, interrupted(ctx, t.what(resource))
			}
		}
	}
	if h.phase.Load() == failed {
		return nil, h.err
	}
	return h, nil
}

func (t *Topic) what(resource string) string {
	return fmt.Sprintf("%q of lock topic %q", resource, t.name)
}

// ask puts the request to the machine, which may answer at once.
func (t *Topic) ask(h *Hold, r *request, try bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return t.closedError()
	}
	if err := t.checkDeclared(h.resource); err != nil {
		return err
	}
	within, hold := r.input(h.requested)
	if !r.deadline.IsZero() && within <= 0 {
		return t.missed(h.resource)
	}
	t.lastRef++
	h.ref = t.lastRef
	if !h.fixed {
		h.priority = t.priority
	}
	t.calls[h.ref] = h
	t.report(eventRecord{name: EventRequested, resource: h.resource, ref: h.ref, priority: h.priority, at: h.requested})
	if err := t.step(protocol.Input{
		Kind: protocol.Acquire, Ref: h.ref, Resource: h.resource, Priority: h.priority, Fixed: h.fixed, Try: try,
		Within: within, Hold: hold,
	}); err != nil && h.phase.Load() == waiting {
		delete(t.calls, h.ref)
		return fmt.Errorf("qosmutex: asking for %s: %w", t.what(h.resource), err)
	}
	if h.phase.Load() == waiting {
		h.ready = make(chan struct{})
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
	if !s.Open {
		return undeclared(t.name, resource, s.Resources)
	}
	return nil
}

// giveUp withdraws a request. It returns false if the request was decided
// without a hold in the meantime; a hold that came too late is left.
func (t *Topic) giveUp(h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch h.phase.Load() {
	case waiting:
		delete(t.calls, h.ref)
		t.report(eventRecord{name: EventWithdrawn, resource: h.resource, ref: h.ref, priority: h.priority, at: time.Now()})
		_ = t.step(protocol.Input{Kind: protocol.Withdraw, Ref: h.ref, Resource: h.resource})
	case failed:
		return false
	default:
		if t.calls[h.ref] == h {
			t.leave(h)
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
	t.metrics.entries++
	r := eventRecord{
		name: EventGranted, resource: h.resource, ref: h.ref, priority: h.priority, fence: h.fence,
		at: h.entered, waited: h.entered.Sub(h.requested),
	}
	t.metrics.waiting.Observe(r.waited.Seconds())
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
	delete(t.calls, d.Ref)
	t.report(eventRecord{name: EventDenied, resource: h.resource, ref: h.ref, priority: h.priority, at: time.Now(), reason: d.Reason.String()})
	t.fail(h, t.denied(h.resource, d.Reason))
}

func (t *Topic) fail(h *Hold, err error) {
	h.err = err
	h.phase.Store(failed)
	if h.ready != nil {
		close(h.ready)
	}
}
