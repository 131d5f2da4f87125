package qosmutex

import (
	"fmt"
	"time"
	"unicode/utf8"

	"padme/qosmutex/protocol"
)

// LockOption configures one request.
type LockOption func(*request)

type request struct {
	client   string // empty: the participant's own
	priority int64
	fixed    bool
	deadline time.Time // zero: none
	hold     time.Duration
	note     []byte
}

// WithPriority gives one request its own priority, which does not follow the participant's.
// Smaller is more important.
func WithPriority(priority int64) LockOption {
	return func(r *request) { r.priority, r.fixed = priority, true }
}

// WithClient names the client on whose behalf a participant makes the request, as a gateway
// does for its clients. States, queues and events then show the client as holder and
// waiter, and this participant as the one it used ("via"). Session, fence and priority are
// the participant's. The name also affects two things. Under Fair each client takes turns
// of its own, as a participant does. And if the participant restarts immediately as the
// root, with a register in a file, it does not grant what it held for a client until the
// client can no longer rely on it. The name is UTF-8 of at most 64 bytes; otherwise Lock
// returns an error that wraps ErrInvalidName. An empty name means the participant itself. A
// Client rejects WithClient with ErrUnsupported, because it makes its own requests.
func WithClient(name string) LockOption {
	return func(r *request) { r.client = name }
}

// WithDeadline sets the latest time at which the request may be granted. Under the Deadline
// priority model, and with the algorithms named edf, the deadline is either promised or
// refused with ErrDeadlineUnattainable as soon as the participant that decides has the
// request. A promise requires WithHold on every request, since a hold of unknown length
// cannot be planned around. It is for one resource: with Any the request is refused with
// ErrUnsupported. Other models and algorithms promise nothing. In any case a request that
// still waits at its deadline ends with ErrDeadlineMissed.
func WithDeadline(deadline time.Time) LockOption {
	return func(r *request) { r.deadline = deadline }
}

// WithHold declares how long the application will hold the resource at most. This is a
// statement, not a limit: a longer hold breaks promises made to others. Zero declares
// nothing. If d is negative, Lock returns an error that wraps ErrInvalidConfig.
func WithHold(d time.Duration) LockOption {
	return func(r *request) { r.hold = d }
}

// WithNote lets a hold survive a process restart, on behalf of an external client that
// relies on it. The hold continues, with its fence and the note, if the process or its
// participant ends before Unlock and Close, and the next process opens the topic with
// Resume and the same register file before the machine is restarted. That file is the
// register itself (see [WithRegister]), or for a Server the one of [KeepIn], which may be
// used beside another register. Without such a file the hold ends with the process. A note
// has at most 512 bytes (MaxNote; otherwise the error wraps ErrInvalidConfig) and may be
// empty. A Client rejects WithNote with ErrUnsupported.
func WithNote(note []byte) LockOption {
	return func(r *request) { r.note = append([]byte{}, note...) }
}

// check reports what no request can have.
func (r *request) check() error {
	if r.hold < 0 {
		return fmt.Errorf("%w: WithHold(%v) is negative: say for how long at most, or leave it out", ErrInvalidConfig, r.hold)
	}
	if len(r.note) > MaxNote {
		return fmt.Errorf("%w: a note of %d bytes: the most is %d", ErrInvalidConfig, len(r.note), MaxNote)
	}
	if len(r.client) > protocol.MaxClient || !utf8.ValidString(r.client) {
		return fmt.Errorf("%w: client %.20q: give WithClient UTF-8 of at most %d bytes", ErrInvalidName, r.client, protocol.MaxClient)
	}
	return nil
}

// input is what the machine is asked.
func (r *request) input(now time.Time) (within, hold protocol.Duration) {
	if !r.deadline.IsZero() {
		within = protocol.Duration(r.deadline.Sub(now))
	}
	return within, protocol.Duration(r.hold)
}

// expiry fires at the deadline; nil, which never does, if there is none. stop must
// be called.
func (r *request) expiry() (fires <-chan time.Time, stop func()) {
	if r.deadline.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(r.deadline))
	return timer.C, func() { timer.Stop() }
}

func unattainable(what string) error {
	return fmt.Errorf("%w: %s cannot be promised in time: ask for a later deadline, or for a shorter hold", ErrDeadlineUnattainable, what)
}

func missed(what string) error {
	return fmt.Errorf("%w while waiting for %s", ErrDeadlineMissed, what)
}
