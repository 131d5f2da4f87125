// Package failure has the errors of which several layers of pub/sub wrap the same. Package
// pubsub has them under the same names, and says what they mean to its users.
package failure

import "errors"

// Errors to test for with errors.Is.
var (
	ErrInvalid     = errors.New("pubsub: invalid argument")
	ErrUnreachable = errors.New("pubsub: broker unreachable")
	ErrRefused     = errors.New("pubsub: refused by the broker")
	ErrDuplicateID = errors.New("pubsub: duplicate id")
	ErrOffline     = errors.New("pubsub: offline")
	ErrBacklog     = errors.New("pubsub: outgoing queue full")
	ErrTooLarge    = errors.New("pubsub: payload too large")
	ErrClosed      = errors.New("pubsub: closed")
	ErrTimeout     = errors.New("pubsub: timeout")
	ErrUndelivered = errors.New("pubsub: not delivered")
)
