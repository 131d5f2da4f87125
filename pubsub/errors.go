package pubsub

import "errors"

// Errors to test for with errors.Is. What is returned wraps one of them in a
// sentence which names the thing and the remedy.
var (
	// ErrInvalid says that an id, name, URL or option cannot be used.
	ErrInvalid = errors.New("pubsub: invalid argument")
	// ErrUnreachable says that no MQTT broker answered at the URL.
	ErrUnreachable = errors.New("pubsub: broker unreachable")
	// ErrRefused says that the broker refused the credentials or a subscription.
	ErrRefused = errors.New("pubsub: refused by the broker")
	// ErrDuplicateID says that another live participant has the same id.
	ErrDuplicateID = errors.New("pubsub: duplicate id")
	// ErrOffline says that there is no connection at the moment. Nothing was
	// sent; send again once Notify has reported true.
	ErrOffline = errors.New("pubsub: offline")
	// ErrBacklog says that the outgoing queue is full. Nothing was sent.
	ErrBacklog = errors.New("pubsub: outgoing queue full")
	// ErrTooLarge says that a payload is larger than MaxPayload.
	ErrTooLarge = errors.New("pubsub: payload too large")
	// ErrInUse says that something which can be taken once is taken.
	ErrInUse = errors.New("pubsub: in use")
	// ErrClosed says that the participant, writer or reader was closed.
	ErrClosed = errors.New("pubsub: closed")
)

// errStream marks bytes from the broker which are not MQTT 3.1.1.
var errStream = errors.New("pubsub: not MQTT")
