//go:build linux

package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/tests/extent"
	"padme/tests/poll"
)

// joinMessage is what a member says that looks for the root of a lock topic.
func joinMessage(from string, ttl protocol.Duration) []byte {
	m := protocol.Message{Kind: protocol.KindJoin, From: protocol.Node{ID: from, Incarnation: 1}, TTL: ttl}
	return protocol.AppendMessage(nil, &m)
}

// A member and a client name 1,100 lock topics each that nobody uses, with the TTL that
// costs their root most. Each gets as many as it may; others lock on, and find new topics
// served; and after a while those that nobody uses are given up.
func TestTopicsThatNobodyUses(t *testing.T) {
	extent.Long(t, "fifty seconds of names")
	t.Parallel()
	const perUser, each = 30, 1100
	n := startNode(t, "--max-topics-per-user", fmt.Sprint(perUser), "--idle-topics", "20s")
	h := startHonest(t, n)
	h.goOn(t)
	base, open := n.memory(t, "VmRSS"), n.sum(t, "qosmutex_server_topics", root)
	mallory, eve := n.as(t, "mallory"), n.as(t, "eve")
	h.during(t, func() {
		n.grows(t, each-perUser, "qosmutex_server_refused_total", `"max-topics-per-user"`, func() {
			for i := range each {
				mallory.publish(t, fmt.Sprintf("%slock/invented-%d/join/mallory", r, i), joinMessage("mallory", 500*protocol.Millisecond), false)
				time.Sleep(2 * time.Millisecond)
			}
		})
		n.grows(t, each-perUser, "qosmutex_gateway_refused_total", `"too_many"`, func() {
			for i := range each {
				eve.publish(t, fmt.Sprintf("%slock/named-%d/client/eve/request", r, i), []byte(`{"op":"query","id":"1"}`), false)
				time.Sleep(2 * time.Millisecond)
			}
		})
		if now := n.sum(t, "qosmutex_server_topics", root); now > open+2*perUser+1 { // and the gateways' own
			t.Errorf("%v topics are open", now)
		}
		bob, err := qosmutex.Open(t.Context(), h.bob, "a new one")
		if err != nil {
			t.Fatalf("a lock topic of somebody else: %v", err)
		}
		hold, err := bob.Lock(t.Context(), "hook")
		if err != nil {
			t.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		if err := bob.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for _, user := range []string{"user=mallory", "client=eve"} {
		if lines := strings.Count(n.Printed(), user); lines < 1 || lines > 4 { // one a minute
			t.Errorf("%d lines of the log tell of %s", lines, user)
		}
	}
	poll.Within(t, 5*patience, "the topics that nobody uses to be given up", func() bool { return n.sum(t, "qosmutex_server_topics", root) <= open })
	if again := n.sum(t, "pubsub_connects_total", root); again != 1 {
		t.Errorf("the node has connected %v times", again)
	}
	if cost := n.memory(t, "VmHWM") - base; cost > 100<<20 {
		t.Errorf("the topics have cost %d MB", cost>>20)
	}
	h.goOn(t)
}
