package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"padme/qosmutex/protocol"
)

// Phases of a request.
const (
	waiting uint32 = iota
	held
	lost
	released
	failed
)

// Hold is one grant of one resource. A Hold that was released or lost stays so and is never
// reused. A nil Hold, which Lock has not returned, counts as lost.
type Hold struct {
	of       attachment
	ref      uint64
	parent   context.Context // of Context
	resource string          // asked for, then granted
	client   string          // on whose behalf; empty: the participant's own
	fence    uint64
	priority int64
	fixed    bool
	options  *request // of a request that may be asked again; else nil
	try      bool
	note     []byte // of WithNote; nil: none

	requested, entered time.Time

	phase atomic.Uint32 // changed under the mutex of the attachment, and by Check from held to lost
	until atomic.Int64  // it is valid below that on the attachment's clock; 0 once it is lost
	first protocol.Time // it ends then at the latest until the root confirms it; 0: with the session. Under Topic.mu
	ready chan struct{} // closed when no longer waiting; nil if it never waited
	err   error         // of a failed request; set before ready

	mu     sync.Mutex
	ctx    context.Context // made when it is first asked for
	cancel context.CancelCauseFunc
}

// Topic returns the name of the lock topic.
func (h *Hold) Topic() string {
	if h.made() != nil {
		return ""
	}
	return h.of.Name()
}

// Resource returns the resource that is held; after a request for Any, the one that was
// granted.
func (h *Hold) Resource() string {
	if h.made() != nil {
		return ""
	}
	return h.resource
}

// Fence returns a number that is higher than that of every earlier entry to this resource,
// by any participant. Pass it to the protected resource, which must refuse a fence below
// the highest it has seen.
func (h *Hold) Fence() uint64 {
	if h.made() != nil {
		return 0 // which no holder has
	}
	return h.fence
}

// Priority returns the priority with which the request was granted.
func (h *Hold) Priority() int64 {
	if h.made() != nil {
		return 0
	}
	return h.priority
}

// Check reads the clock and returns nil while the hold is valid; otherwise an error that
// wraps ErrLost or ErrReleased. It does not block. A process can be paused right after
// Check, so an effect that must never happen outside a hold must check the fence.
func (h *Hold) Check() error {
	if err := h.made(); err != nil {
		return err
	}
	if h.phase.Load() == held && int64(h.of.now()) < h.until.Load() {
		return nil
	}
	return h.ended()
}

// ended says why a hold is not valid. That is final, even if the root should answer after all.
func (h *Hold) ended() error {
	if h.phase.CompareAndSwap(held, lost) {
		h.cancelContext()
	}
	if h.phase.Load() == released {
		return h.releasedError()
	}
	return h.lostError()
}

// Context returns a context that is canceled with a cause that wraps ErrLost as soon as the
// loss of the hold is noticed, and ErrReleased after Unlock. For a hold from Do it descends
// from the context passed to Do. For a hold from Lock it does not descend from the context
// passed to Lock, which often bounds only the waiting.
func (h *Hold) Context() context.Context {
	if err := h.made(); err != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(err)
		return ctx
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(h.parent)
		h.cancelEnded()
	}
	return h.ctx
}

// Unlock releases the resource. It never waits for the network: without a connection the
// release is stored and sent later. It returns an error that wraps ErrReleased if the hold
// was already released, and ErrLost if it had been lost.
func (h *Hold) Unlock() error {
	if err := h.made(); err != nil {
		return err
	}
	return h.of.unlock(h)
}

// now is the time by the clock that holds are valid by.
func (t *Topic) now() protocol.Time { return t.clock() }

func (t *Topic) unlock(h *Hold) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock() // a system call: once for the check and for the step
	var err error
	if h.phase.Load() != held || int64(now) >= h.until.Load() || t.p.Err() != nil { // then it cannot be released any more
		err = h.ended()
	}
	if t.calls[h.ref] == h {
		t.leave(h, now)
	}
	return err
}

// do runs f and unlocks.
func (h *Hold) do(f func(ctx context.Context, h *Hold) error) (err error) {
	defer func() {
		if e := h.Unlock(); errors.Is(e, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, e)
		}
	}()
	return f(h.Context(), h)
}

// leave ends a hold that the machine still counts. What ends with the participant is not
// left: nobody can be told, and with a note it may go on. The caller holds topic.mu.
func (t *Topic) leave(h *Hold, now protocol.Time) {
	orderly := t.p.Err() == nil
	delete(t.calls, h.ref)
	delete(t.inside, h.ref)
	if orderly {
		t.forgetHold(h)
	}
	if h.phase.CompareAndSwap(held, released) {
		h.cancelContext()
		t.reportLeave(h, EventReleased, time.Now())
	} else {
		t.reportLeave(h, EventLost, t.lostAt(protocol.Time(h.until.Load())))
		t.metrics.losses++
	}
	if orderly {
		_ = t.stepAt(now, protocol.Input{Kind: protocol.Leave, Ref: h.ref, Resource: h.resource})
	}
}

// lost handles a loss that the machine tells of.
func (t *Topic) lost(l *protocol.Loss) {
	h := t.calls[l.Ref]
	if h == nil {
		return
	}
	t.forgetHold(h)
	delete(t.calls, l.Ref)
	delete(t.inside, l.Ref)
	t.lose(h)
}

// extend makes the holds that the machine still counts valid until the session
// that they were granted under ends. A hold that was lost is not among them, and no
// later session revives it. The caller holds topic.mu and has handled the losses.
func (t *Topic) extend(until protocol.Time) {
	if until == t.validUntil {
		return
	}
	t.validUntil = until
	for _, h := range t.inside {
		t.setUntil(h)
	}
}

// setUntil makes a hold valid for as long as is known now.
func (t *Topic) setUntil(h *Hold) {
	until := t.validUntil
	if h.first != 0 {
		until = min(until, h.first)
	}
	h.until.Store(int64(until))
}

// confirmed lets a hold last as long as the session.
func (t *Topic) confirmed(ref uint64) {
	if h := t.inside[ref]; h != nil {
		h.first = 0
		t.setUntil(h)
	}
}

// lose ends a hold that was not released.
func (t *Topic) lose(h *Hold) {
	at := t.lostAt(protocol.Time(h.until.Swap(0))) // before anything else: Check may be between its two loads
	if h.phase.CompareAndSwap(held, lost) {
		h.cancelContext()
	}
	t.reportLeave(h, EventLost, at)
	t.metrics.losses++
}

// lostAt is when a hold was over that was valid until then: on a busy machine that is noticed later, and
// somebody else may have entered meanwhile.
func (t *Topic) lostAt(until protocol.Time) time.Time {
	late := t.clock() - until
	if until == 0 || late < 0 {
		late = 0
	}
	return time.Now().Add(-time.Duration(late))
}

func (t *Topic) reportLeave(h *Hold, name string, at time.Time) {
	r := h.event(name, at)
	r.held = max(0, at.Sub(h.entered))
	observe(t.metrics.holding, r.held.Seconds())
	t.report(r)
}

// cancelContext cancels the context if it was asked for; one that is made later
// finds the phase.
func (h *Hold) cancelContext() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel != nil {
		h.cancelEnded()
	}
}

func (h *Hold) cancelEnded() {
	switch h.phase.Load() {
	case waiting, lost:
		h.cancel(h.lostError())
	case released:
		h.cancel(h.releasedError())
	}
}

func (h *Hold) lostError() error {
	return &holdError{ErrLost, h, "another participant may be inside: stop, and lock it again"}
}

func (h *Hold) releasedError() error {
	return &holdError{ErrReleased, h, "lock it again"}
}

// holdError is formed when it is read: every Unlock makes one as a cause.
type holdError struct {
	kind   error
	hold   *Hold
	remedy string
}

func (e *holdError) Error() string {
	return fmt.Sprintf("%v: %q of lock topic %q with fence %d: %s", e.kind, e.hold.resource, e.hold.of.Name(), e.hold.fence, e.remedy)
}

func (e *holdError) Unwrap() error { return e.kind }
