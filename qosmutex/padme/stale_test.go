package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestStaleReleaseGoesUpOnce: what the parent has not acknowledged is not told again, or it
// would go round as fast as messages go where participants are attached in a cycle.
func TestStaleReleaseGoesUpOnce(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B(C))")
	b := w.nodes["B"].machine
	b.out = new(protocol.Output)
	rel := protocol.Message{Kind: protocol.KindRelease, From: w.nodes["C"].machine.self, Resource: "x", Grant: protocol.Grant{Number: 7}}
	b.passStale(&rel)
	b.passStale(&rel)
	if n := len(b.out.Messages); n != 1 {
		t.Errorf("it goes up %d times", n)
	}
}
