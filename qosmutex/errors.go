package qosmutex

import (
	"context"
	"errors"
	"fmt"

	"padme/qosmutex/protocol"
)

// Errors to test for with errors.Is. What is returned wraps one of them in a
// sentence that names the thing and the remedy.
var (
	// ErrNoRoot says that the lock topic has no root that answers.
	ErrNoRoot = errors.New("qosmutex: no root")
	// ErrBusy says that TryLock found the resource taken.
	ErrBusy = errors.New("qosmutex: busy")
	// ErrLost says that a hold ended although it was not released: another
	// participant may be inside.
	ErrLost = errors.New("qosmutex: hold lost")
	// ErrReleased says that a hold was released before.
	ErrReleased = errors.New("qosmutex: hold released")
	// ErrClosed says that the topic or its participant was closed.
	ErrClosed = errors.New("qosmutex: closed")
	// ErrConflict says that the topic runs with other settings than those given.
	ErrConflict = errors.New("qosmutex: conflicting settings")
	// ErrUndeclared says that the topic has no such resource, or none for Any.
	ErrUndeclared = errors.New("qosmutex: undeclared resource")
	// ErrFull says that too many requests wait already.
	ErrFull = errors.New("qosmutex: too many waiting")
	// ErrInvalidConfig says that an option cannot be used.
	ErrInvalidConfig = errors.New("qosmutex: invalid configuration")
	// ErrInvalidName says that a topic or resource name cannot be used.
	ErrInvalidName = errors.New("qosmutex: invalid name")
	// ErrTimeout says that the context's deadline passed while waiting.
	ErrTimeout = errors.New("qosmutex: timed out")
	// ErrCancelled says that the context was cancelled while waiting.
	ErrCancelled = errors.New("qosmutex: cancelled")
	// ErrDeadlineUnattainable says that the request cannot be promised its deadline.
	ErrDeadlineUnattainable = errors.New("qosmutex: deadline unattainable")
	// ErrDeadlineMissed says that the request still waited when its deadline passed.
	ErrDeadlineMissed = errors.New("qosmutex: deadline missed")
	// ErrUnsupported says that the algorithm has no such request.
	ErrUnsupported = errors.New("qosmutex: not supported by the algorithm")
	// ErrMissed says that a watcher read too slowly and did not see everything.
	ErrMissed = errors.New("qosmutex: missed")
)

// interrupted is the error of a call whose context ended; what says what was
// waited for.
func interrupted(ctx context.Context, what string) error {
	kind := ErrCancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = ErrTimeout
	}
	return fmt.Errorf("%w while waiting for %s: %w", kind, what, context.Cause(ctx))
}

func (t *Topic) noRoot() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &noRootError{topic: t.name, url: t.p.URL(), register: t.record.failure}
}

type noRootError struct {
	topic, url string
	register   error // why the register did not answer; nil: it did, or there is none
}

func (e *noRootError) Error() string {
	if e.register != nil {
		return fmt.Sprintf("qosmutex: lock topic %q has no root on %s, and its register does not answer: %v", e.topic, e.url, e.register)
	}
	return fmt.Sprintf("qosmutex: lock topic %q has no root on %s: start one with \"pubsub-node broker\" or Open with qosmutex.Create", e.topic, e.url)
}

func (e *noRootError) Unwrap() error { return ErrNoRoot }

// denied says why a request was refused. The caller holds mu.
func (t *Topic) denied(resource string, reason protocol.Reason) error {
	switch reason {
	case protocol.ReasonBusy:
		return fmt.Errorf("%w: %q of lock topic %q is not free now: wait for it with Lock", ErrBusy, resource, t.name)
	case protocol.ReasonUndeclared:
		return undeclared(t.name, resource, t.status.Settings.Resources)
	case protocol.ReasonNoResource:
		return fmt.Errorf("%w: lock topic %q declares no resources to choose from: name one, or create it with WithResources", ErrUndeclared, t.name)
	case protocol.ReasonFull:
		return fmt.Errorf("%w: %q of lock topic %q: try again later", ErrFull, resource, t.name)
	case protocol.ReasonClosed:
		return t.closedError()
	case protocol.ReasonUnattainable:
		return t.unattainable(resource)
	case protocol.ReasonMissed:
		return t.missed(resource)
	case protocol.ReasonUnsupported:
		return fmt.Errorf("%w: %q cannot serve %q of lock topic %q like this: name one resource", ErrUnsupported, t.algorithm.Name, resource, t.name)
	}
	return fmt.Errorf("%w: lock topic %q refused %q: %v", ErrBusy, t.name, resource, reason)
}

func undeclared(topic, resource string, declared []string) error {
	return fmt.Errorf("%w: lock topic %q has no resource %q: take one of %s, or create it with WithOpenResources",
		ErrUndeclared, topic, resource, list(declared))
}

func (t *Topic) closedError() error {
	return fmt.Errorf("%w: lock topic %q: Open it again", ErrClosed, t.name)
}

// list writes names for an error, the first few of many.
func list(names []string) string {
	if len(names) > 8 {
		return fmt.Sprintf("%q and %d more", names[:8], len(names)-8)
	}
	return fmt.Sprintf("%q", names)
}
