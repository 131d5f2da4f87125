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

// WithPriority gives one request a priority of its own, which does not follow
// the participant's. Smaller is more important.
func WithPriority(priority int64) LockOption {
	return func(r *request) { r.priority, r.fixed = priority, true }
}

// WithClient names on whose behalf the request is made, for a participant that asks for
// others, as a gateway does for its clients. States, queues and events then name the
// client as holder and waiter, and this participant as what it came through ("via"). It
// changes nothing else: session, fence and priority are the participant's. Only where a
// participant is started again at once as the root, with a register in a file, what it held
// for others is not granted before they cannot believe in it any more. The name is
// UTF-8 of at most 64 bytes, or Lock returns an error that wraps ErrInvalidName; empty is
// the participant itself. A Client refuses it with ErrUnsupported: it asks for itself.
func WithClient(name string) LockOption {
	return func(r *request) { r.client = name }
}

// WithDeadline says until when the request must be inside. Under the Deadline
// priority model, and by the algorithms named edf, it is either promised that or
// refused with ErrDeadlineUnattainable as soon as the participant that decides has
// heard of it; a promise needs WithHold from all, since a hold of unknown length cannot
// be planned around. Such a promise is for one resource: with Any the request is refused
// with ErrUnsupported. Under other models and algorithms nothing is promised. In any case
// a request that still waits at its deadline ends with ErrDeadlineMissed.
func WithDeadline(deadline time.Time) LockOption {
	return func(r *request) { r.deadline = deadline }
}

// WithHold declares how long the application will stay inside at most. It is a
// statement, not a limit: who stays longer breaks promises made to others. Zero
// declares nothing; of less, Lock returns an error that wraps ErrInvalidConfig.
func WithHold(d time.Duration) LockOption {
	return func(r *request) { r.hold = d }
}

// WithNote lets a hold outlive this process, for somebody outside of it who goes by the
// hold. If the process or its participant ends before Unlock and Close, and the next one
// opens the topic with Resume and the same file of a register (see WithRegister) before the
// machine is started again, the hold goes on there, with its fence and the note. A note has
// at most 512 bytes (MaxNote; else the error wraps ErrInvalidConfig) and may be empty. Holds
// at other registers end with their process. A Client refuses it with ErrUnsupported.
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
