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
	// GiveUp takes back p, which waits or was granted just now. It returns false if p has
	// been denied in the meantime.
	GiveUp(p *Pending) bool
	// Raise makes p, if it still waits, as important as priority says.
	Raise(p *Pending, priority int64) error
	// Unlock gives the hold of p back. It is called at most once, and not after Lose.
	Unlock(p *Pending)
}

// Pending is one request of a Locker in another package, from its making to the end of its
// hold: what the application has of it is a Request and a Hold. Grant, Deny and Lose, and
// what reads or writes the fields, need a mutex of the Decider.
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

// NewPending makes a request for resource. Its hold's context descends from parent. Errors
// are those of Lock for a context that has ended and for options that no request can have.
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

// Grant lets the request in, until Unlock or Lose.
func (p *Pending) Grant(fence uint64, priority int64) {
	p.Priority, p.Entered = priority, time.Now()
	p.hold.fence, p.hold.priority = fence, priority
	p.hold.until.Store(math.MaxInt64)
	p.hold.phase.Store(held)
	close(p.hold.ready)
}

// Deny ends a request that waits.
func (p *Pending) Deny(err error) {
	p.hold.err = err
	p.hold.phase.Store(failed)
	close(p.hold.ready)
}

// Lose ends a hold that was not unlocked.
func (p *Pending) Lose() { p.hold.endHeld(lost) }

// Granted is the hold; nil: there is none.
func (p *Pending) Granted() *Hold {
	if phase := p.hold.phase.Load(); phase == waiting || phase == failed {
		return nil
	}
	return p.hold
}

// Wait returns when the request is decided, or gives it up.
func (p *Pending) Wait(ctx context.Context) (*Hold, error) {
	return outside{p}.wait(ctx, p.hold, &p.options)
}

// Do waits, runs f inside and unlocks, as Topic.Do does.
func (p *Pending) Do(ctx context.Context, f func(ctx context.Context, h *Hold) error) error {
	h, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	return h.do(f)
}

// Request is what Ask returns.
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
