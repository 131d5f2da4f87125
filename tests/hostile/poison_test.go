//go:build linux

package hostile

import (
	"fmt"
	"math"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/tests/poll"
)

// ahead is how far a fence may be above the wall clock in microseconds, where each term of
// a root begins if that is above its last block of 2^16.
const ahead = 16 << 16

// poison is what a member publishes on the topics of a lock's root: fences and terms around
// 2^53 and at the ends of what a number can be, and what is no number.
func poison(n *node, t *testing.T, topics []string) {
	mallory := n.as(t, "mallory")
	numbers := []string{
		`"9007199254740991"`, `"9007199254740992"`, `"9007199254740993"`, `"4611686018427387904"`, `"9223372036854775807"`, `"9223372036854775808"`,
		`"18446744073709551615"`, `"18446744073709551616"`, `"-1"`, `"NaN"`, `"0x10"`, `""`, `9007199254740993`, `-1`, `1e400`, `null`, `NaN`, `{}`, `[[[`,
	}
	epochs := []string{`"1.x"`, `"9223372036854775808.zzz"`, `"18446744073709551615.3w5e11264sgsf"`, `"-1.-1"`, `17`, `null`}
	for _, topic := range topics {
		for i, number := range numbers {
			epoch := epochs[i%len(epochs)]
			state := fmt.Sprintf(`{"topic":%q,"resource":"hook","status":"held","holder":"mallory","priority":-9223372036854775808,"fence":%s,"waiting":-1,"epoch":%s,"root":"mallory","since":"9999-12-31T23:59:59Z"}`, topic, number, epoch)
			view := fmt.Sprintf(`{"topic":%q,"epoch":%s,"root":"mallory","ttl":1e308,"models":"fair-replace-use-use","resources":["other"],"open":false,"members":%s}`, topic, epoch, number)
			for _, event := range []string{"granted", "released", "lost", "rooted"} {
				mallory.publish(t, r+"lock/"+topic+"/events", fmt.Appendf(nil, `{"event":%q,"topic":%q,"resource":"hook","participant":"mallory","priority":1,"fence":%s,"at":"0000-00-00"}`, event, topic, number), true)
			}
			for _, resource := range []string{"hook", fmt.Sprint("never-", i)} {
				mallory.publish(t, r+"lock/"+topic+"/"+resource+"/state", []byte(state), true)
			}
			mallory.publish(t, r+"lock/"+topic+"/view", []byte(view), true)
			mallory.publish(t, r+"lock/"+topic+"/member/mallory", fmt.Appendf(nil, `{"topic":%q,"participant":"mallory","incarnation":%s,"role":"root","root":"mallory","epoch":%s,"candidate":true}`, topic, number, epoch), true)
		}
		for _, term := range []uint64{1 << 53, 1 << 60, 1<<63 - 1, math.MaxUint64} {
			self := protocol.Node{ID: "mallory", Incarnation: math.MaxUint64}
			epoch := protocol.EpochOf(term, self)
			for _, m := range []protocol.Message{
				{Kind: protocol.KindJoin, Epoch: epoch, Clock: math.MaxUint64, TTL: math.MaxInt64, Priority: math.MinInt64},
				{Kind: protocol.KindOffer, Epoch: epoch, Clock: math.MaxUint64, Priority: math.MinInt64, Depth: math.MaxUint32, Root: self, Flags: protocol.FlagFree},
				{Kind: protocol.KindBeat, To: protocol.Node{ID: root}, Epoch: epoch, Session: math.MaxUint64, Sent: math.MaxInt64, Attempt: math.MaxUint64, Tokens: []protocol.TokenState{
					{Resource: "hook", Grant: protocol.Grant{Epoch: epoch, Number: 1}, Fence: math.MaxUint64 - 1, Target: protocol.RequestID{Node: self, Clock: math.MaxUint64}},
					{Resource: "hook", Grant: protocol.Grant{Epoch: epoch, Number: 1}, Fence: 1 << 53},
				}},
				{Kind: protocol.KindHandover, To: protocol.Node{ID: root}, Epoch: epoch},
				{Kind: protocol.KindRelease, To: protocol.Node{ID: root}, Epoch: epoch, Link: 1, Seq: 1, Resource: "hook", Fences: protocol.Fences{Next: 1 << 62, End: math.MaxUint64}, Entries: []protocol.Entry{{Fence: math.MaxUint64}}},
			} {
				m.From = self
				payload := protocol.AppendMessage(nil, &m)
				mallory.publish(t, r+"lock/"+topic+"/join/mallory", payload, true)
				mallory.publish(t, r+"lock/"+topic+"/join/mallory", payload, false)
			}
		}
	}
	marker := r + "data/p/poisoned/k/mallory/" + fmt.Sprint(time.Now().UnixNano())
	mallory.publish(t, marker, []byte("x"), true)
	spy := n.as(t, "spy")
	spy.listen(t, marker)
	poll.Within(t, patience, "all of the poison to be with the broker", func() bool { return len(spy.got()) > 0 })
}

// What anybody may leave retained, and what members say of terms, clocks and fences, moves no
// fence: over restarts those of old and new topics rise, and stay with the wall clock.
func TestPoisonedStates(t *testing.T) {
	n := startNode(t, "--data", t.TempDir())
	last := map[string]uint64{}
	check := func(t *testing.T, p *pubsub.Participant, topic string) {
		t.Helper()
		fence := once(t, p, topic, false)
		now := uint64(time.Now().UnixMicro())
		if was := last[topic]; fence <= was || fence > now+ahead {
			t.Errorf("%s: fence %d after %d, at %d", topic, fence, was, now)
		}
		last[topic] = fence
	}
	t.Run("before", func(t *testing.T) { check(t, n.join(t, "alice"), "old") })
	for round := range 4 {
		fresh := fmt.Sprint("fresh-", round)
		t.Run(fmt.Sprint("poison ", round), func(t *testing.T) {
			poison(n, t, []string{"old", fresh})
			alice := n.join(t, "alice")
			for _, topic := range []string{"old", fresh, "old"} {
				check(t, alice, topic)
			}
		})
		t.Run(fmt.Sprint("restart ", round), func(t *testing.T) {
			n.Kill()
			n.start(t)
			alice := n.join(t, "alice")
			check(t, alice, "old")
			for i := range round + 1 {
				check(t, alice, fmt.Sprint("fresh-", i))
			}
		})
	}
	t.Logf("fences at the end: %v", last)
}
