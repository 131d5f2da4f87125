// Package wait has what every layer needs to wait and to be woken.
package wait

import (
	"context"
	"time"
)

// Sleep waits for d. It reports false, at once, when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Signal leaves a token in ch, which has room for one, unless one is there already. It
// does not block.
func Signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// A Change is what several goroutines wait for. The zero value is ready; its owner's mutex
// guards it.
type Change struct{ next chan struct{} }

// Next returns a channel that is closed by the next Happened.
func (c *Change) Next() <-chan struct{} {
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Happened wakes all that wait.
func (c *Change) Happened() {
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// A Turn is held by one goroutine at a time, as a mutex is, but also while it waits for the
// network: the others wait no longer than their contexts last. It is made by NewTurn.
type Turn chan struct{}

// NewTurn makes a turn that nobody holds.
func NewTurn() Turn { return make(Turn, 1) }

// Take blocks until t is free or ctx ends, and says why it ended. A turn that is free is
// taken, whatever ctx says.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Give lets the next one have it.
func (t Turn) Give() { <-t }
