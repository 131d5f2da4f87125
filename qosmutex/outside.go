package qosmutex

import (
	"context"
	"math"
	"time"

	"padme/qosmutex/protocol"
)

// Decider decides the requests of a Locker in another package, such as papers.Topic.
type Decider interface {
	Name() string // of the lock topic
	// GiveUp cancels p, which waits or has just been granted. It returns false if p has
	// been denied in the meantime.
	GiveUp(p *Pending) bool
	// Raise sets the priority of p if it still waits.
	Raise(p *Pending, priority int64) error
	// Unlock releases the hold of p. It is called at most once, and not after Lose.
	Unlock(p *Pending)
}

// Pending is one request of a Locker in another package, from its creation to the end of
// its hold. The application sees it as a Request and a Hold. Call Grant, Deny and Lose, and
// access the fields, only under a mutex of the Decider.
type Pending struct {
	Ref       uint64 // for the Decider
	Resource  string
	Priority  int64 // of WithPriority, if Fixed
	Fixed     bool
	Client    string        // of WithClient
	Deadline  time.Time     // zero: none
	Hold      time.Duration // of WithHold; 0: not declared
	Noted     bool          // there was WithNote
	Requested time.Time
	Entered   time.Time

	of      Decider
	hold    *Hold
	options request
}

// NewPending creates a request for resource. The context of its hold descends from parent.
// Errors are those of Lock for a context that has ended and for options that are invalid
// for every request.
func NewPending(ctx, parent context.Context, of Decider, resource string, opts ...LockOption) (*Pending, error) {
	r := requestOf(opts)
	p := &Pending{
		Resource: resource, Priority: r.priority, Fixed: r.fixed, Client: r.client, Deadline: r.deadline, Hold: r.hold,
		Noted: r.note != nil, Requested: time.Now(), of: of, options: r,
	}
	p.hold = &Hold{of: outside{p}, parent: parent, resource: resource, ready: make(chan struct{})}
	switch {
	case ctx.Err() != nil:
		return nil, interrupted(ctx, p.hold.what())
	case !r.deadline.IsZero() && !r.deadline.After(p.Requested):
		return nil, missed(p.hold.what())
	}
	return p, r.check()
}

// Grant grants the request. The hold lasts until Unlock or Lose.
func (p *Pending) Grant(fence uint64, priority int64) {
	p.Priority, p.Entered = priority, time.Now()
	p.hold.fence, p.hold.priority = fence, priority
	p.hold.until.Store(math.MaxInt64)
	p.hold.phase.Store(held)
	close(p.hold.ready)
}

// Deny ends a waiting request with an error.
func (p *Pending) Deny(err error) {
	p.hold.err = err
	p.hold.phase.Store(failed)
	close(p.hold.ready)
}

// Lose ends a hold that was not unlocked.
func (p *Pending) Lose() { p.hold.endHeld(lost) }

// Granted returns the hold, or nil if there is none.
func (p *Pending) Granted() *Hold {
	if phase := p.hold.phase.Load(); phase == waiting || phase == failed {
		return nil
	}
	return p.hold
}

// Wait returns when the request is granted or denied. When ctx ends, it cancels the
// request.
func (p *Pending) Wait(ctx context.Context) (*Hold, error) {
	return outside{p}.wait(ctx, p.hold, &p.options)
}

// Do waits for the grant, runs f and unlocks, as Topic.Do does.
func (p *Pending) Do(ctx context.Context, f func(ctx context.Context, h *Hold) error) error {
	h, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	return h.do(f)
}

// Request returns the Request for Ask to return.
func (p *Pending) Request() *Request { return &Request{hold: p.hold, options: p.options} }

// outside is the attachment of a hold to a Decider.
type outside struct{ p *Pending }

func (o outside) Name() string { return o.p.of.Name() }

func (o outside) now() protocol.Time { return 0 } // such a hold ends by a call, not by time

func (o outside) wait(ctx context.Context, h *Hold, r *request) (*Hold, error) {
	return h.await(ctx, r, func(*Hold) bool { return o.p.of.GiveUp(o.p) })
}

func (o outside) raise(_ *Hold, priority int64) error { return o.p.of.Raise(o.p, priority) }

func (o outside) unlock(h *Hold) error {
	err := h.Check()
	if h.endHeld(released) {
		o.p.of.Unlock(o.p)
	}
	return err
}
