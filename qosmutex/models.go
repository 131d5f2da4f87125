package qosmutex

import "padme/qosmutex/protocol"

// Any asks for the first free one of a topic's declared resources.
const Any = protocol.Any

// Models is a combination of the four PADME models.
type Models = protocol.Models

// The models; see package protocol.
const (
	Level          = protocol.Level
	Fair           = protocol.Fair
	Aging          = protocol.Aging
	Deadline       = protocol.Deadline
	RequestForward = protocol.RequestForward
	RequestReplace = protocol.RequestReplace
	Forward        = protocol.Forward
	Use            = protocol.Use
)

// ParseModels reads "fair-replace-use-use" (Priority-Request-Reply-Release) or
// its initials, "FRUU".
func ParseModels(s string) (Models, error) { return protocol.ParseModels(s) }

// Timing holds the time constants of a lock topic.
type Timing = protocol.Timing

// LAN suits participants and broker on one wired or Wi-Fi network. It is the
// default.
func LAN() Timing { return protocol.LAN() }

// WAN suits participants that reach the broker over the Internet.
func WAN() Timing { return protocol.WAN() }

// Local suits participants on one machine.
func Local() Timing { return protocol.Local() }
