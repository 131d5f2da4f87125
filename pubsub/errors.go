package pubsub

import (
	"errors"

	"padme/pubsub/internal/failure"
)

// Errors to test for with errors.Is. What is returned wraps one of them in a
// sentence that names the thing and the remedy.
var (
	// ErrInvalid says that an id, name, URL or option cannot be used.
	ErrInvalid = failure.ErrInvalid
	// ErrUnreachable says that no MQTT broker answered at the URL.
	ErrUnreachable = failure.ErrUnreachable
	// ErrRefused says that the broker refused the credentials or a subscription.
	ErrRefused = failure.ErrRefused
	// ErrDuplicateID says that another live participant has the same id.
	ErrDuplicateID = failure.ErrDuplicateID
	// ErrOffline says that there is no connection at the moment. Nothing was
	// sent; send again once Notify has reported true.
	ErrOffline = failure.ErrOffline
	// ErrBacklog says that the outgoing queue is full. Nothing was sent.
	ErrBacklog = failure.ErrBacklog
	// ErrTooLarge says that a payload is larger than MaxPayload.
	ErrTooLarge = failure.ErrTooLarge
	// ErrInUse says that something that can be used only once is in use.
	ErrInUse = errors.New("pubsub: in use")
	// ErrUnannounced says that the participant has no presence, which the operation
	// requires.
	ErrUnannounced = errors.New("pubsub: no presence")
	// ErrClosed says that the participant, writer or reader was closed.
	ErrClosed = failure.ErrClosed
	// ErrUndelivered says that a writer was closed before its reliable readers had
	// acknowledged everything that it wrote.
	ErrUndelivered = failure.ErrUndelivered
	// ErrTimeout says that a writer could not write in time: its readers do not
	// acknowledge, or the broker does not accept messages. Nothing was written.
	ErrTimeout = failure.ErrTimeout
)
