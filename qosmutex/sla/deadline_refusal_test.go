package sla

import (
	"errors"
	"math"
	"testing"

	"padme/qosmutex/protocol"
)

// TestDeadlineRefusals shows participant 2 of the chain 1 – 2 – 3, 4 – 2, while 1 has
// the token and knows of a request of 3, messages that cannot be.
func TestDeadlineRefusals(t *testing.T) {
	id := func(who string, clock uint64) protocol.RequestID {
		return protocol.RequestID{Node: protocol.Node{ID: who, Incarnation: 1}, Clock: clock}
	}
	const ms = protocol.Millisecond
	token := protocol.Fences{Next: 7, End: math.MaxUint64}
	for _, c := range []struct {
		name string
		from string
		msg  protocol.Message
		want error
	}{
		{"a kind of others", "1", protocol.Message{Kind: protocol.KindReply}, errDeadlineKind},
		{"not a neighbor", "5", protocol.Message{Kind: protocol.KindRequest, ID: id("5", 9)}, errDeadlineSender},
		{"request of nobody", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("x", 9)}, errDeadlineOrigin},
		{"own request", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("2", 9)}, errDeadlineOrigin},
		{"request by the wrong link", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("4", 9)}, errDeadlineOrigin},
		{"request made before", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 4)}, errDeadlineOld},
		{"request again", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 5)}, errDeadlineOld},
		{"request that was withdrawn", "4", protocol.Message{Kind: protocol.KindRequest, ID: id("4", 5)}, errDeadlineOld},
		{"withdrawn before", "4", protocol.Message{Kind: protocol.KindWithdraw, ID: id("4", 5)}, errDeadlineOld},
		{"withdrawal of an old request", "3", protocol.Message{Kind: protocol.KindWithdraw, ID: id("3", 4)}, errDeadlineOld},
		{"endless deadline", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 9), Within: math.MaxInt64}, errDeadlineTime},
		{"deadline long ago", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 9), Within: math.MinInt64}, errDeadlineTime},
		{"negative stay", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 9), Hold: -1}, errDeadlineTime},
		{"endless stay", "3", protocol.Message{Kind: protocol.KindRequest, ID: id("3", 9), Hold: math.MaxInt64}, errDeadlineTime},
		{"refusal from below", "3", protocol.Message{Kind: protocol.KindDeny, ID: id("4", 5), Reason: protocol.ReasonUnattainable}, errDeadlineSender},
		{"refusal of the sender's side", "1", protocol.Message{Kind: protocol.KindDeny, ID: id("5", 5), Reason: protocol.ReasonUnattainable}, errDeadlineOrigin},
		{"refusal for no such reason", "1", protocol.Message{Kind: protocol.KindDeny, ID: id("3", 5), Reason: protocol.ReasonBusy}, errDeadlineKind},
		{"acknowledgement where there are none", "1", protocol.Message{Kind: protocol.KindAck, ID: id("3", 5)}, errDeadlineKind},
		{"token from below", "3", protocol.Message{Kind: protocol.KindToken, Fences: token}, errDeadlineSender},
		{"token with no fences", "1", protocol.Message{Kind: protocol.KindToken}, errDeadlineFence},
		{"token with the last fences", "1", protocol.Message{Kind: protocol.KindToken, Fences: protocol.Fences{Next: math.MaxUint64, End: math.MaxUint64}}, errDeadlineFence},
		{"token that lists one twice", "1", protocol.Message{
			Kind: protocol.KindToken, Fences: token, Wishes: []protocol.Wish{{ID: id("3", 5), Within: 50 * ms}, {ID: id("3", 6), Within: 60 * ms}},
		}, errDeadlineTwice},
		{"token that lists nobody", "1", protocol.Message{
			Kind: protocol.KindToken, Fences: token, Wishes: []protocol.Wish{{ID: id("x", 5)}},
		}, errDeadlineOrigin},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPump(t, Deadline(DeadlineOptions{Preempt: -1}), 5, []int{-1, 0, 1, 1, 0}, nil)
			two := func(from string, m protocol.Message) error {
				m.From, m.To, m.Resource = protocol.Node{ID: from, Incarnation: 1}, protocol.Node{ID: "2"}, lock
				return p.step(1, &protocol.Input{Kind: protocol.Receive, Message: &m})
			}
			for _, m := range []protocol.Message{
				{Kind: protocol.KindRequest, ID: id("3", 5), Within: 500 * ms, Hold: 10 * ms},
				{Kind: protocol.KindRequest, ID: id("4", 5), Within: 900 * ms, Hold: 10 * ms},
				{Kind: protocol.KindWithdraw, ID: id("4", 5)},
			} {
				if err := two(m.ID.Node.ID, m); err != nil {
					t.Fatal(err)
				}
			}
			before := p.counted()
			if err := two(c.from, c.msg); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if p.counted() != before {
				t.Errorf("it was answered")
			}
			// What was here is still here: the request of 3 is in the token's way.
			if err := two("1", protocol.Message{Kind: protocol.KindToken, Fences: token}); err != nil {
				t.Fatal(err)
			}
			last := p.events[len(p.events)-1].msg
			if last.Kind != protocol.KindToken || len(last.Wishes) != 1 || last.Wishes[0].ID != id("3", 5) {
				t.Errorf("the token goes on as %+v", last)
			}
		})
	}
}

// TestDeadlineFarAway asks with times that no message carries. A deadline that far
// away is none, a stay that long is unknown.
func TestDeadlineFarAway(t *testing.T) {
	for _, in := range []protocol.Input{
		{Within: math.MaxInt64, Hold: 1},
		{Within: deadlineFarthest + 1, Hold: 1},
		{Within: deadlineFarthest + 1, Hold: math.MaxInt64},
		{Hold: deadlineFarthest + 1},
		{Hold: math.MinInt64},
	} {
		p := newPump(t, Deadline(DeadlineOptions{}), 3, []int{-1, 0, 1}, nil)
		p.now = protocol.Second
		p.acquire(2, in)
		if order := p.drain(); len(order) != 1 {
			t.Errorf("within %d, hold %d: %d entries", in.Within, in.Hold, len(order))
		}
	}
}

// TestDeadlineConfiguration makes no machine for a network so slow that its times
// cannot be counted.
func TestDeadlineConfiguration(t *testing.T) {
	cfg := pumpConfig(0, 3, nil)
	cfg.Timing.Hop = deadlineFarthest / 2
	if _, err := Deadline(DeadlineOptions{}).New(cfg); !errors.Is(err, protocol.ErrInvalidConfig) {
		t.Errorf("a hop of 18 years: %v", err)
	}
	cfg = pumpConfig(0, 3, []int{-1, -1, 0})
	if _, err := Deadline(DeadlineOptions{}).New(cfg); !errors.Is(err, protocol.ErrInvalidConfig) {
		t.Errorf("two roots: %v", err)
	}
}

// TestDeadlines pins down what the command line offers.
func TestDeadlines(t *testing.T) {
	want := []string{
		"edf-token", "edf-token-b0", "edf-token-b1", "edf-token-b4", "edf-ack", "edf-ack-b0", "edf-ack-b1", "edf-ack-b4",
	}
	all := Deadlines()
	if len(all) != len(want) {
		t.Fatalf("%d algorithms, want %d", len(all), len(want))
	}
	for i, a := range all {
		if a.Name != want[i] || !a.Static {
			t.Errorf("%s, static %v, want %s", a.Name, a.Static, want[i])
		}
	}
}
