package padme

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// TestLinkKeepsWhatIsNotAcknowledged compares what a link would repeat with what
// was sent on it, as acknowledgements come in any pattern.
func TestLinkKeepsWhatIsNotAcknowledged(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		out := protocol.Output{}
		m := &Machine{core: core{self: protocol.Node{ID: "B", Incarnation: 3}, out: &out, clock: 70, epoch: protocol.Epoch{Number: 2, Tie: 1 << 60}}}
		l := &link{peer: protocol.Node{ID: "A", Incarnation: 1}, gen: 4, received: 9}
		var sent []protocol.Message
		acked := 0
		for range rapid.IntRange(0, 60).Draw(r, "steps") {
			if rapid.IntRange(0, 2).Draw(r, "what") == 0 {
				upTo := rapid.IntRange(0, len(sent)).Draw(r, "ack")
				l.ack(uint64(upTo))
				acked = max(acked, upTo)
			} else {
				msg := m.emitOn(l, protocol.KindRelease)
				msg.ID = protocol.RequestID{Node: protocol.Node{ID: "D", Incarnation: 2}, Clock: rapid.Uint64().Draw(r, "clock")}
				msg.Resource = strings.Repeat("x", rapid.SampledFrom([]int{1, 5, 300}).Draw(r, "name"))
				msg.Grant = protocol.Grant{Epoch: m.epoch, Number: uint64(len(sent))}
				msg.Entries = make([]protocol.Entry, rapid.IntRange(0, 3).Draw(r, "entries"))
				for i := range msg.Entries {
					msg.Entries[i] = protocol.Entry{ID: msg.ID, Fence: uint64(i)}
				}
				m.commit(l, msg)
				sent = append(sent, *msg)
			}
			out.Reset()
			m.repeat(l)
			if diff := cmp.Diff(sent[acked:], out.Messages, cmpopts.EquateEmpty()); diff != "" {
				r.Fatalf("of %d messages, %d acknowledged, it repeats something else:\n%s", len(sent), acked, diff)
			}
			if acked == len(sent) && cap(l.kept) > keptAtRest {
				r.Fatalf("holds on to %d bytes for nothing", cap(l.kept))
			}
		}
	})
}

// TestRepeatedMessagesAreCounted: Counters.Sent says that it includes them.
func TestRepeatedMessagesAreCounted(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A(B) models=level-forward-forward-forward", "cut B", "request B", "heal B"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	if c := w.nodes["B"].machine.Status().Counters; c.Sent[protocol.KindRequest] != 2 || c.Resent == 0 {
		t.Errorf("%d Requests sent, %d messages repeated; want the Request twice", c.Sent[protocol.KindRequest], c.Resent)
	}
}
