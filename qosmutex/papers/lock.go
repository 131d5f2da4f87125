package papers

import (
	"context"
	"fmt"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

// Lock waits until this participant is inside resource and returns the hold. The context
// bounds the waiting only. When it ends, the request is withdrawn.
//
// Errors wrap these of package qosmutex: ErrTimeout or ErrCanceled (and context.Cause),
// ErrUndeclared, ErrInvalidName, ErrFull, ErrClosed, ErrUnsupported for Any and options that
// no algorithm here knows, and with WithDeadline ErrDeadlineUnattainable or
// ErrDeadlineMissed.
func (t *Topic) Lock(ctx context.Context, resource string, opts ...qosmutex.LockOption) (*qosmutex.Hold, error) {
	p, err := t.ask(ctx, context.Background(), resource, false, opts)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// TryLock is Lock for a resource that is free now, if the algorithm can tell without asking
// others; else the error wraps qosmutex.ErrBusy.
func (t *Topic) TryLock(ctx context.Context, resource string, opts ...qosmutex.LockOption) (*qosmutex.Hold, error) {
	p, err := t.ask(ctx, context.Background(), resource, true, opts)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Ask puts a request in line, as Lock does, and returns without waiting for it to be
// granted. Each Request needs one call of Wait.
func (t *Topic) Ask(resource string, opts ...qosmutex.LockOption) (*qosmutex.Request, error) {
	p, err := t.ask(context.Background(), context.Background(), resource, false, opts)
	if err != nil {
		return nil, err
	}
	return p.Request(), nil
}

// Do runs f inside resource and unlocks when f returns or panics. The context that f gets
// is canceled when the hold is lost, because the participant has ended; then Do returns an
// error that wraps qosmutex.ErrLost.
func (t *Topic) Do(ctx context.Context, resource string, f func(ctx context.Context, h *qosmutex.Hold) error, opts ...qosmutex.LockOption) error {
	if f == nil {
		return fmt.Errorf("%w: Do without a function: give it what to run inside", qosmutex.ErrInvalidConfig)
	}
	p, err := t.ask(ctx, ctx, resource, false, opts)
	if err != nil {
		return err
	}
	return p.Do(ctx, f)
}

// Warning returns "": there is nothing to warn of.
func (t *Topic) Warning(string) string { return "" }

// SetPriority changes the participant's priority, and that of its waiting requests which
// had no WithPriority. Smaller is more important. The error wraps qosmutex.ErrClosed.
func (t *Topic) SetPriority(priority int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return t.closedError()
	}
	if priority == t.priority {
		return nil
	}
	t.priority = priority
	for _, p := range t.calls {
		if p.Granted() == nil && !p.Fixed {
			p.Priority = priority
			t.report(p, qosmutex.EventReprioritized)
		}
	}
	return t.step(protocol.Input{Kind: protocol.Prioritize, Priority: priority})
}

// ask puts a request to the machine, which may answer at once.
func (t *Topic) ask(ctx, parent context.Context, resource string, try bool, opts []qosmutex.LockOption) (*qosmutex.Pending, error) {
	p, err := qosmutex.NewPending(ctx, parent, decider{t}, resource, opts...)
	switch {
	case err != nil:
		return nil, err
	case p.Noted:
		return nil, fmt.Errorf("%w: holds of lock topic %q end with their process: leave WithNote out", qosmutex.ErrUnsupported, t.name)
	case resource != qosmutex.Any:
		if err := checkName(resource); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.closing {
		return nil, t.closedError()
	}
	if !p.Fixed {
		p.Priority = t.priority
	}
	return p, t.line(p, try)
}

// line puts a request in line under a number of its own. The caller holds mu.
func (t *Topic) line(p *qosmutex.Pending, try bool) error {
	t.lastRef++
	p.Ref = t.lastRef
	in := protocol.Input{
		Kind: protocol.Acquire, Ref: p.Ref, Resource: p.Resource, Priority: p.Priority, Fixed: p.Fixed, Try: try, Client: p.Client,
		Hold: protocol.Duration(p.Hold),
	}
	if !p.Deadline.IsZero() {
		in.Within = protocol.Duration(max(time.Until(p.Deadline), 1)) // 0 is none
	}
	t.calls[p.Ref] = p
	t.report(p, qosmutex.EventRequested)
	err := t.step(in)
	if err != nil {
		delete(t.calls, p.Ref)
	}
	return err
}

// granted lets a request in. One whose caller has gone is left at once.
func (t *Topic) granted(g *protocol.Granted) {
	if p := t.calls[g.Ref]; p != nil {
		p.Grant(g.Fence, g.Priority)
		t.report(p, qosmutex.EventGranted)
	} else {
		t.orphans = append(t.orphans, g.Ref)
	}
}

// denied ends a request without a hold.
func (t *Topic) denied(d *protocol.Denial) {
	if p := t.calls[d.Ref]; p != nil {
		delete(t.calls, d.Ref)
		t.report(p, qosmutex.EventDenied, d.Reason.String())
		p.Deny(t.reason(p.Resource, d.Reason))
	}
}

// leave ends a hold, if the topic has not ended. The caller holds mu.
func (t *Topic) leave(p *qosmutex.Pending) {
	if t.calls[p.Ref] == p {
		delete(t.calls, p.Ref)
		t.report(p, qosmutex.EventReleased)
		_ = t.step(protocol.Input{Kind: protocol.Leave, Ref: p.Ref, Resource: p.Resource})
	}
}

// withdraw takes a waiting request back. The caller holds mu.
func (t *Topic) withdraw(p *qosmutex.Pending, reason string) {
	delete(t.calls, p.Ref)
	t.report(p, qosmutex.EventWithdrawn, reason)
	_ = t.step(protocol.Input{Kind: protocol.Withdraw, Ref: p.Ref, Resource: p.Resource})
}

// decider is the Topic as requests and holds see it.
type decider struct{ *Topic }

func (t decider) GiveUp(p *qosmutex.Pending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.Granted() != nil:
		t.leave(p)
	case t.calls[p.Ref] == p:
		t.withdraw(p, "")
	default:
		return false
	}
	return true
}

func (t decider) Unlock(p *qosmutex.Pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave(p)
}

// Raise puts the request in line with another priority, before it takes the earlier one
// out: it is never out of line.
func (t decider) Raise(p *qosmutex.Pending, priority int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.calls[p.Ref] != p || p.Granted() != nil || priority == p.Priority:
		return nil
	case priority > p.Priority:
		return fmt.Errorf("%w: priority %d of %q of lock topic %q is less important than %d: end the request and ask again", qosmutex.ErrInvalidConfig, priority, p.Resource, t.name, p.Priority)
	}
	was := *p
	delete(t.calls, was.Ref)
	p.Priority, p.Fixed = priority, true
	err := t.line(p, false)
	if err != nil {
		p.Deny(err)
	}
	t.withdraw(&was, "")
	return err
}

// reason says why a request was refused.
func (t *Topic) reason(resource string, reason protocol.Reason) error {
	what := fmt.Sprintf("%q of lock topic %q", resource, t.name)
	switch reason {
	case protocol.ReasonUndeclared:
		return fmt.Errorf("%w: lock topic %q has no resource %q: take one of %q", qosmutex.ErrUndeclared, t.name, resource, t.cfg.Resources)
	case protocol.ReasonFull:
		return fmt.Errorf("%w: %s: try again later", qosmutex.ErrFull, what)
	case protocol.ReasonUnattainable:
		return fmt.Errorf("%w: %s cannot be promised in time: ask for a later deadline, or for a shorter hold", qosmutex.ErrDeadlineUnattainable, what)
	case protocol.ReasonMissed:
		return fmt.Errorf("%w while waiting for %s", qosmutex.ErrDeadlineMissed, what)
	case protocol.ReasonUnsupported:
		return fmt.Errorf("%w: %q cannot choose a resource of lock topic %q: name one", qosmutex.ErrUnsupported, t.cfg.Algorithm.Name, t.name)
	case protocol.ReasonClosed:
		return t.closedError()
	}
	return fmt.Errorf("%w: %s is not free now, or %q cannot tell: wait for it with Lock", qosmutex.ErrBusy, what, t.cfg.Algorithm.Name)
}
