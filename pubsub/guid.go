package pubsub

import "padme/pubsub/internal/wire"

// A GUID identifies a writer or reader for as long as its participant's process lives.
type GUID struct {
	Participant string
	Incarnation uint64
	Endpoint    string // unique within the participant
}

// String returns participant~incarnation/endpoint.
func (g GUID) String() string { return wire.GUID(g).String() }
