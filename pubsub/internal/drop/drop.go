// Package drop says why messages are dropped.
package drop

import (
	"errors"

	"padme/pubsub/internal/wire"
)

// Reason is why a received or queued message was dropped.
type Reason int

// Reasons, in the order in which they are counted.
const (
	Malformed  Reason = iota // not an envelope, or a broken one
	Version                  // an envelope of another protocol version
	Topic                    // a topic that decodes to no name
	Channel                  // a message for a channel without handler
	Kind                     // an envelope of an unknown kind
	Backlog                  // the side lane's queue was full
	Unmatched                // a sample of a writer that does not match
	Duplicate                // a sample received before
	Disconnect               // queued or unacknowledged when the connection was lost
	Late                     // too late for the order by source time
	Reasons                  // how many there are
)

func (r Reason) String() string {
	return [Reasons]string{"malformed", "version", "topic", "channel", "kind", "backlog", "unmatched", "duplicate", "disconnect", "late"}[r]
}

// Unparsed is the reason for an envelope that does not parse.
func Unparsed(err error) Reason {
	if errors.Is(err, wire.ErrVersion) {
		return Version
	}
	return Malformed
}
