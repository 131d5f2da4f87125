package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// Errors to test for with errors.Is. What is returned wraps one of them in a
// sentence that names the thing and the remedy.
var (
	// ErrNoRoot says that the lock topic has no root that answers.
	ErrNoRoot = errors.New("qosmutex: no root")
	// ErrNoServer says that no participant serves locks to clients.
	ErrNoServer = errors.New("qosmutex: no server")
	// ErrBusy says that TryLock found the resource taken.
	ErrBusy = errors.New("qosmutex: busy")
	// ErrLost says that a hold ended although it was not released: another
	// participant may be inside.
	ErrLost = errors.New("qosmutex: hold lost")
	// ErrReleased says that a hold was released before.
	ErrReleased = errors.New("qosmutex: hold released")
	// ErrClosed says that the topic or its participant was closed, or never opened.
	ErrClosed = errors.New("qosmutex: closed")
	// ErrConflict says that the topic runs with other settings than those given.
	ErrConflict = errors.New("qosmutex: conflicting settings")
	// ErrUndeclared says that the topic has no such resource, or none for Any.
	ErrUndeclared = errors.New("qosmutex: undeclared resource")
	// ErrFull says that too many requests wait already, or too many lock topics are open.
	ErrFull = errors.New("qosmutex: full")
	// ErrInvalidConfig says that an option cannot be used.
	ErrInvalidConfig = errors.New("qosmutex: invalid configuration")
	// ErrInvalidName says that a topic or resource name cannot be used.
	ErrInvalidName = errors.New("qosmutex: invalid name")
	// ErrTimeout says that the context's deadline passed while waiting.
	ErrTimeout = errors.New("qosmutex: timed out")
	// ErrCanceled says that the context was canceled while waiting.
	ErrCanceled = errors.New("qosmutex: canceled")
	// ErrDeadlineUnattainable says that the request cannot be promised its deadline.
	ErrDeadlineUnattainable = errors.New("qosmutex: deadline unattainable")
	// ErrDeadlineMissed says that the request still waited when its deadline passed.
	ErrDeadlineMissed = errors.New("qosmutex: deadline missed")
	// ErrUnsupported says that options exclude each other, or that the algorithm or a Client
	// has no such request.
	ErrUnsupported = errors.New("qosmutex: not supported")
	// ErrMissed says that a watcher read too slowly and did not see everything.
	ErrMissed = errors.New("qosmutex: missed")
)

// interrupted is the error of a call whose context ended; what says what was
// waited for.
func interrupted(ctx context.Context, what string) error {
	return fmt.Errorf("%w while waiting for %s: %w", kindOf(ctx), what, context.Cause(ctx))
}

// kindOf is what a call ends with whose context ended.
func kindOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ErrCanceled
}

// explained is an error of a kind that its text does not begin with.
type explained struct {
	text string
	kind error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.kind }

// noRoot says that nobody has answered for a while.
func (t *Topic) noRoot() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &explained{fmt.Sprintf("qosmutex: lock topic %q on %s %s", t.name, t.p.URL(), t.rootless()), ErrNoRoot}
}

// rootless says why there is no root, and what to do. The caller holds mu.
func (t *Topic) rootless() string {
	if t.record.failure != nil {
		return fmt.Sprintf("has no root, and its register does not answer: %v", t.record.failure)
	}
	if at := scopeOf(t.p); at != (scope{}) {
		return fmt.Sprintf("has no root%s: start one with \"pubsub-node serve %s%s\" or give the %s of those who serve it, or Open with qosmutex.Create", at.in, shellWord(t.name), at.flags, at.names)
	}
	return fmt.Sprintf("has no root: start one with \"pubsub-node broker\", at another broker with \"pubsub-node serve %s\", or Open with qosmutex.Create", shellWord(t.name))
}

// noPlace says what Open was still waiting for when ctx ended.
func (t *Topic) noPlace(ctx context.Context) error {
	connected := t.p.Connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	why := error(&explained{text: "its root answers, and has not taken this member yet: allow more time, or, if you open many lock topics, open one with many resources"})
	switch {
	case !connected:
		why = &explained{text: "there is no connection to the broker"}
	case t.record.failure != nil, !t.heard && t.parent == "":
		why = &explained{"it " + t.rootless(), ErrNoRoot}
	case t.parent != "":
		why = &explained{text: fmt.Sprintf("%q does not take this member as a child: start that participant, or Open without WithParent", t.parent)}
	}
	return fmt.Errorf("%w while waiting for a place in lock topic %q on %s: %w: %w", kindOf(ctx), t.name, t.p.URL(), why, context.Cause(ctx))
}

// denied says why a request was refused. The caller holds mu.
func (t *Topic) denied(resource string, reason protocol.Reason) error {
	switch reason {
	case protocol.ReasonBusy:
		return fmt.Errorf("%w: %q of lock topic %q is not free now: wait for it with Lock", ErrBusy, resource, t.name)
	case protocol.ReasonUndeclared:
		return undeclared(t.name, resource, t.status.Settings.Resources)
	case protocol.ReasonNoResource:
		return fmt.Errorf("%w: lock topic %q declares no resources to choose from: name one, or declare them with: pubsub-node lock create %s --resources …", ErrUndeclared, t.name, shellWord(t.name))
	case protocol.ReasonFull:
		return fmt.Errorf("%w: too many wait for %q of lock topic %q: try again later", ErrFull, resource, t.name)
	case protocol.ReasonClosed:
		return t.closedError()
	case protocol.ReasonUnattainable:
		return unattainable(t.what(resource))
	case protocol.ReasonMissed:
		return missed(t.what(resource))
	case protocol.ReasonUnsupported:
		return anyInTime(t.name)
	}
	return fmt.Errorf("%w: lock topic %q refused %q: %v", ErrBusy, t.name, resource, reason)
}

// anyInTime refuses two options that exclude each other where deadlines are promised.
func anyInTime(topic string) error {
	return fmt.Errorf("%w: Any with WithDeadline: lock topic %q promises deadlines, for one resource at a time: name one, or leave WithDeadline out", ErrUnsupported, topic)
}

func undeclared(topic, resource string, declared []string) error {
	if len(declared) == 0 {
		return fmt.Errorf("%w: lock topic %q has no resources: name them with WithResources where it is created, or allow any with WithOpenResources, or declare some now with: pubsub-node lock configure %s --resources …",
			ErrUndeclared, topic, shellWord(topic))
	}
	return fmt.Errorf("%w: lock topic %q has no resource %q: take one of %s, or change them with: pubsub-node lock configure %s",
		ErrUndeclared, topic, resource, list(declared), shellWord(topic))
}

// ownName refuses the resource that is named as its topic, where nobody declared any.
func ownName(topic string) error {
	return fmt.Errorf("%w: lock topic %q has no resource %q: its own is %q, which \"pubsub-node lock %s\" takes, too; if it is to have one of its name, declare it with: pubsub-node lock create %s --resources %s",
		ErrUndeclared, topic, topic, DefaultResource, shellWord(topic), shellWord(topic), shellWord(topic))
}

func (t *Topic) closedError() error {
	if t.p.Err() != nil { // opening it again is of no use
		return t.participantEnded()
	}
	return fmt.Errorf("%w: lock topic %q: Open it again", ErrClosed, t.name)
}

// list writes names for an error, the first few of many.
func list(names []string) string {
	if len(names) > 8 {
		return fmt.Sprintf("%q and %d more", names[:8], len(names)-8)
	}
	return fmt.Sprintf("%q", names)
}

// scope is where a participant is if that is not the default domain below the default
// prefix, where the lock node of a broker is.
type scope struct {
	in    string // after what is there
	flags string // of a command that is to go there
	names string // what a user chooses
}

// scopeOf is the zero scope for the default one.
func scopeOf(p *pubsub.Participant) (at scope) {
	root := strings.Split(p.Root(), "/")
	for _, l := range []struct{ level, usual, in, name string }{
		{root[len(root)-1], "default", "in domain", "domain"}, {root[0], "padme", "below prefix", "prefix"},
	} {
		chosen, err := pubsub.DecodeLevel(l.level)
		if err != nil || chosen == l.usual {
			continue
		}
		at.in += fmt.Sprintf(" %s %q", l.in, chosen)
		at.flags += " --" + l.name + " " + shellWord(chosen)
		if at.names != "" {
			at.names += " and "
		}
		at.names += l.name
	}
	return at
}
