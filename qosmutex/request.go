package qosmutex

import (
	"context"
	"fmt"
	"time"

	"padme/qosmutex/protocol"
)

// Request is a request in the queue of a Topic or a Client. Wait ends it.
type Request struct {
	hold    *Hold
	options request
	over    error // what Wait has ended with
}

// Ask queues a request for resource, as Lock does, and returns without waiting for the
// grant. Requests of one participant that are equally important are served in the order of
// these calls. Call Wait once on each Request. The errors are those of Lock that are known
// at once.
func (t *Topic) Ask(resource string, opts ...LockOption) (*Request, error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	r := &Request{options: requestOf(opts)}
	r.hold = t.newHold(context.Background(), resource, &r.options)
	if err := t.ask(r.hold, &r.options, false); err != nil {
		return nil, err
	}
	return r, nil
}

// Decided reports whether Wait would return at once.
func (r *Request) Decided() bool {
	if r.made() != nil {
		return true
	}
	select {
	case <-r.hold.ready:
		return true
	default:
		return r.hold.ready == nil
	}
}

// Wait waits until the request is granted and returns the hold. When ctx ends, it cancels
// the request. Only one goroutine may call it; a second call returns what the first did.
// The errors are those of Lock.
func (r *Request) Wait(ctx context.Context) (h *Hold, err error) {
	if err := r.made(); err != nil {
		return nil, err
	}
	if r.over == nil {
		h, r.over = r.hold.of.wait(ctx, r.hold, &r.options)
	}
	return h, r.over
}

// SetPriority makes a waiting request more important. It is then served before later
// requests of the same priority. It does not block. A request that is already granted or
// denied stays as it is. A less important priority is refused with ErrInvalidConfig: end
// the request and ask again.
func (r *Request) SetPriority(priority int64) error {
	if err := r.made(); err != nil {
		return err
	}
	return r.hold.of.raise(r.hold, priority)
}

// lessImportant is the error of SetPriority.
func (h *Hold) lessImportant(priority int64) error {
	return fmt.Errorf("%w: priority %d of %q of lock topic %q is less important than %d: end the request and ask again", ErrInvalidConfig, priority, h.resource, h.of.Name(), h.priority)
}

// raise changes the priority of a request that waits. It stays before those that came later.
func (t *Topic) raise(h *Hold, priority int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.calls[h.ref] != h || h.phase.Load() != waiting || priority == h.priority: // who gives up is not in calls
		return nil
	case priority > h.priority:
		return h.lessImportant(priority)
	}
	h.priority, h.fixed = priority, true
	t.report(h.event(EventReprioritized, time.Now()))
	_ = t.step(protocol.Input{Kind: protocol.Raise, Ref: h.ref, Priority: priority}) // what is to be asked again has it then
	return nil
}
