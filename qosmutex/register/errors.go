package register

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of every implementation, for errors.Is.
var (
	ErrConflict    = errors.New("register: conflict")
	ErrUnavailable = errors.New("register: unavailable")
	ErrUnknown     = errors.New("register: outcome unknown")
	ErrInvalid     = errors.New("register: invalid")
	ErrClosed      = errors.New("register: closed")
)

// Conflict is the error of a write whose key has another version than the write
// replaces. It is ErrConflict.
type Conflict struct {
	Key     string
	Old     Version // what the write would have replaced
	Current Entry   // what the key holds

	// Unknown: the write was tried more than once, and may have been made and
	// replaced since. The error is then ErrUnknown, too.
	Unknown bool
}

// Error names the key and both versions.
func (e *Conflict) Error() string {
	s := fmt.Sprintf("register: %q is at version %v, not %v", e.Key, e.Current.Version, e.Old)
	if e.Unknown {
		s += "; the write may have been made and replaced since"
	}
	return s
}

// Is reports what the error is.
func (e *Conflict) Is(target error) bool {
	return target == ErrConflict || target == ErrUnknown && e.Unknown
}

// Unavailable is the error of a call that got no answer in time. It is
// ErrUnavailable.
type Unavailable struct {
	// Missing names the voters that did not answer, as far as is known: the caller's
	// connection may be at fault.
	Missing []string

	// Unknown: the write may have been made, or may still be made. The error is then
	// ErrUnknown, too.
	Unknown bool

	Cause error // usually the context's error
}

// Error names the missing voters.
func (e *Unavailable) Error() string {
	var b strings.Builder
	b.WriteString(ErrUnavailable.Error())
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, ": no answer from %s", strings.Join(e.Missing, ", "))
	}
	if e.Unknown {
		b.WriteString("; the write may have been made")
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Is reports what the error is.
func (e *Unavailable) Is(target error) bool {
	return target == ErrUnavailable || target == ErrUnknown && e.Unknown
}

// Unwrap returns the cause.
func (e *Unavailable) Unwrap() error { return e.Cause }
