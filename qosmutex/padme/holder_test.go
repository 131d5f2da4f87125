package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// Who answers that it is inside is believed of itself, and with a fence that was handed
// out, until it answers otherwise.
func TestHolderThatAnswers(t *testing.T) {
	b, c := protocol.Node{ID: "B", Incarnation: 2}, protocol.Node{ID: "C", Incarnation: 3}
	entry := func(n protocol.Node, fence uint64) []protocol.Entry {
		return []protocol.Entry{{ID: protocol.RequestID{Node: n, Clock: 1}, Fence: fence}}
	}
	tok := &token{next: 9}
	for i, step := range []struct {
		from    protocol.Node
		verdict protocol.Verdict
		entries []protocol.Entry
		want    uint64 // the fence of the holder known afterwards
	}{
		{b, protocol.VerdictHolding, nil, 0},
		{b, protocol.VerdictHolding, entry(c, 5), 0},
		{b, protocol.VerdictHolding, append(entry(b, 5), entry(b, 6)...), 0},
		{b, protocol.VerdictHolding, entry(b, 9), 0}, // the next one to be handed out
		{b, protocol.VerdictHolding, entry(b, 8), 8},
		{c, protocol.VerdictNever, nil, 8},
		{b, protocol.VerdictPassed, nil, 0},
	} {
		tok.answered(&protocol.Message{From: step.from, Verdict: step.verdict, Entries: step.entries})
		got := uint64(0)
		if tok.holder != nil {
			got = tok.holder.entry.Fence
		}
		if got != step.want {
			t.Errorf("after answer %d the fence of the holder is %d, want %d", i, got, step.want)
		}
	}
}
