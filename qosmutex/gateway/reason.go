package gateway

import (
	"errors"
	"fmt"
	"strings"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// detailOf says in the words of JSON what qosmutex says in those of Go.
func (t *ticket) detailOf(err error) string {
	switch reason := reasonOf(err); {
	case reason == jsonlock.Busy && t.try:
		return fmt.Sprintf("resource %q is not free now: leave wait_ms out to wait for it", t.resource)
	case reason == jsonlock.Unattainable:
		return "within_ms cannot be promised: give a longer one, or a shorter hold_ms"
	case reason == jsonlock.Missed:
		return "within_ms is over"
	case reason == jsonlock.Unsupported:
		return `within_ms with resource "*": this lock promises deadlines, for one resource at a time: name one, or leave within_ms out`
	}
	return detailOf(err)
}

// detailOf is a sentence of qosmutex in an answer.
func detailOf(err error) string { return strings.TrimPrefix(err.Error(), "qosmutex: ") }

// reasonOf is the reason of a lock that was not had.
func reasonOf(err error) jsonlock.Reason {
	switch {
	case errors.As(err, new(*qosmutex.NotReadyError)):
		return jsonlock.NotReady
	case errors.Is(err, qosmutex.ErrTimeout):
		return jsonlock.WaitOver
	case errors.Is(err, qosmutex.ErrBusy), errors.Is(err, qosmutex.ErrFull):
		return jsonlock.Busy
	case errors.Is(err, qosmutex.ErrUndeclared):
		return jsonlock.Undeclared
	case errors.Is(err, qosmutex.ErrDeadlineUnattainable):
		return jsonlock.Unattainable
	case errors.Is(err, qosmutex.ErrDeadlineMissed):
		return jsonlock.Missed
	case errors.Is(err, qosmutex.ErrUnsupported):
		return jsonlock.Unsupported
	case errors.Is(err, qosmutex.ErrInvalidName):
		return jsonlock.BadResource
	}
	return jsonlock.Refused
}
