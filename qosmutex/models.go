package qosmutex

import (
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

// Any requests the first declared resource of a topic that is free. It cannot be combined
// with a promised deadline: see [WithDeadline].
const Any = protocol.Any

// DefaultResource is the resource that "pubsub-node lock NAME" takes, and a JSON request
// that names no resource.
const DefaultResource = jsonlock.DefaultResource

// Models is a combination of the four PADME models: a struct with the fields Priority
// (Level, Fair, Aging or Deadline), Request (RequestForward or RequestReplace), Reply and
// Release (Forward or Use; Release also Retain or Direct). The zero value, the default, is
// Level for Priority and Forward for the others.
type Models = protocol.Models

// The models; docs/choosing.md says which to choose.
const (
	Level    = protocol.Level    // the most important first
	Fair     = protocol.Fair     // all in turn
	Aging    = protocol.Aging    // as Level, but a request that is overtaken often becomes more important
	Deadline = protocol.Deadline // the earliest deadline first, each promised or refused at once

	RequestForward = protocol.RequestForward // every request is passed on
	RequestReplace = protocol.RequestReplace // only the most important one of a subtree is

	Forward = protocol.Forward // a token only passes through
	Use     = protocol.Use     // a participant that waits may enter when it passes
	Retain  = protocol.Retain  // Release only: a participant that leaves keeps it until another one asks
	Direct  = protocol.Direct  // Release only: a participant that leaves sends it straight to the next
)

// ParseModels reads "fair-replace-use-use" (Priority-Request-Reply-Release) or
// its initials, "FRUU".
func ParseModels(s string) (Models, error) { return protocol.ParseModels(s) }
