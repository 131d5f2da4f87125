//go:build linux

package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"padme/tests/extent"
	"padme/tests/poll"
)

// keep logs a user in with a session that is to outlive its connection, by MQTT 3.1.1 or,
// with an expiry in seconds, by MQTT 5, and returns the broker's answer.
func (n *node) keep(t *testing.T, user, id string, expiry uint32) (c *raw, present bool, code byte) {
	t.Helper()
	c = n.stranger(t)
	head, flags := []byte{4, 0xc0, 0, 60}, "clean=false"
	if expiry > 0 {
		head, flags = binary.BigEndian.AppendUint32([]byte{5, 0xc0, 0, 60, 5, 0x11}, expiry), "expiry"
	}
	c.send(t, packet(0x10, str("MQTT"), head, str(id), str(user), str(user)))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	first, body, err := c.next()
	if err != nil || first != 0x20 || len(body) < 2 {
		t.Fatalf("no CONNACK for %s with %s: %#x %v", user, flags, first, err)
	}
	_ = c.SetReadDeadline(time.Time{})
	return c, body[0] == 1, body[1]
}

// subscribe sends one SUBSCRIBE of MQTT 3.1.1, or 5, and returns its codes.
func (c *raw) subscribe(t *testing.T, version int, filters ...string) []byte {
	t.Helper()
	c.id++
	properties := []byte{}
	if version == 5 {
		properties = []byte{0}
	}
	parts := [][]byte{binary.BigEndian.AppendUint16(nil, c.id), properties}
	for _, f := range filters {
		parts = append(parts, str(f), []byte{1})
	}
	c.send(t, packet(0x82, parts...))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	for {
		first, body, err := c.next()
		if err != nil {
			t.Fatalf("no SUBACK: %v", err)
		}
		if first == 0x90 {
			return body[len(body)-len(filters):]
		}
	}
}

// part says goodbye and closes.
func (c *raw) part(t *testing.T) {
	t.Helper()
	c.send(t, []byte{0xe0, 0})
	_ = c.Close()
}

// latency is how long alice's publications at QoS 1 take to be acknowledged, at the
// median and the 99th percentile.
func (n *node) latency(t *testing.T) (median, most time.Duration) {
	t.Helper()
	c := n.as(t, "alice")
	defer c.Close()
	var all []time.Duration
	for i := range 300 {
		begin := time.Now()
		c.send(t, packet(0x32, str(r+"data/p/t/k/alice/w"), []byte{byte((i + 1) >> 8), byte(i + 1)}, []byte("x")))
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if first, _, err := c.next(); err != nil || first != 0x40 {
			t.Fatalf("no PUBACK: %#x %v", first, err)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// An observer leaves a thousand sessions on everything behind. None is there, so nobody's
// publication waits for them; and a returning one is told so.
func TestObserverLeavesSessions(t *testing.T) {
	extent.Long(t, "a thousand sessions")
	many := extent.Of(1000, 5000)
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	for _, by := range []struct {
		name   string
		expiry uint32
	}{{"MQTT 3.1.1", 0}, {"MQTT 5", 0xffffffff}} {
		t.Run(by.name, func(t *testing.T) {
			version := 4
			if by.expiry > 0 {
				version = 5
			}
			sessions, memory := n.sum(t, "padme_broker_sessions"), n.memory(t, "VmRSS")
			median, most := n.latency(t)
			h.during(t, func() {
				for i := range many {
					c, _, code := n.keep(t, "watch", fmt.Sprint("left-", version, "-", i), by.expiry)
					if code != 0 {
						t.Fatalf("the observer is refused: %d", code)
					}
					if codes := c.subscribe(t, version, "#"); codes[0] > 1 {
						t.Fatalf("SUBACK %v", codes)
					}
					c.part(t)
				}
			})
			afterMedian, afterMost := n.latency(t)
			t.Logf("%d sessions of an observer on #: a publication takes %.1f times as long at the median, %.1f at the 99th percentile (%v, %v before); %+d MB resident",
				many, float64(afterMedian)/float64(median), float64(afterMost)/float64(most), median, most, (n.memory(t, "VmRSS")-memory)>>20)
			poll.Within(t, patience, "the sessions to be gone", func() bool { return n.sum(t, "padme_broker_sessions") <= sessions })
			if _, present, _ := n.keep(t, "watch", fmt.Sprint("left-", version, "-0"), by.expiry); present {
				t.Error("a session of an observer was kept")
			}
			h.goOn(t)
		})
	}
	if got := n.sum(t, limited, `"max-user-sessions"`); got < float64(2*many) {
		t.Errorf("%v are counted", got)
	}
	if !n.Out.Has("user=watch") {
		t.Errorf("the log does not name who did it: %s", n.Printed())
	}
}

// Sessions of MQTT 5 that have expired leave no subscription behind, and who comes later
// under such an id receives nothing for them.
func TestExpiredSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	const filters = 100
	sessions, packets := extent.Of(3, 5), extent.Of(10, 150)
	n := startNode(t, "--max-user-subscriptions", fmt.Sprint(2*sessions*packets*filters))
	h := startHonest(t, n)
	h.goOn(t)
	before, others := n.sum(t, "padme_broker_subscriptions"), n.sum(t, "padme_broker_sessions")
	h.during(t, func() {
		for s := range sessions {
			c, _, code := n.keep(t, "mallory", fmt.Sprint("brief", s), 1)
			if code != 0 {
				t.Fatalf("CONNACK %d", code)
			}
			for p := range packets {
				all := []string{r + "data/p/t/mine/+/w"}
				for f := range filters - 1 {
					all = append(all, fmt.Sprintf("%sdata/%d/%d/+/+/+", r, p, f))
				}
				c.subscribe(t, 5, all...)
			}
			c.part(t)
		}
	})
	t.Logf("%v subscriptions of %d sessions that expire", n.sum(t, "padme_broker_subscriptions")-before, sessions)
	poll.Within(t, patience, "the sessions to expire", func() bool {
		return n.sum(t, "padme_broker_sessions") < others+float64(sessions)
	})
	// The subscriptions must end with the sessions; a moment for the two figures to agree.
	for end := time.Now().Add(5 * time.Second); n.sum(t, "padme_broker_subscriptions") > before; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v subscriptions are left of sessions that have expired", n.sum(t, "padme_broker_subscriptions")-before)
		}
	}
	h.goOn(t)
	heir, _, code := n.keep(t, "mallory", "brief0", 1)
	if code != 0 {
		t.Fatalf("CONNACK %d", code)
	}
	n.as(t, "mallory").publish(t, r+"data/p/t/mine/mallory/w", []byte("for the former"), false)
	heir.send(t, []byte{0xc0, 0})
	_ = heir.SetReadDeadline(time.Now().Add(patience))
	if first, _, err := heir.next(); err != nil || first != 0xd0 {
		t.Errorf("instead of the answer to a PING: %#x %v", first, err)
	}
}

// One member opens connections, leaves sessions behind, subscribes to ever new filters and
// has messages wait for a session to which it never comes back. Each ends at its quota.
func TestMemberTakesTooMuch(t *testing.T) {
	extent.Long(t, "each quota is filled")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	median, most := n.latency(t)
	base := n.memory(t, "VmRSS")
	for _, attack := range []struct {
		limit string
		user  string
		run   func(*testing.T, *node)
	}{
		{"max-user-clients", "watch", func(t *testing.T, n *node) { manyConnections(t, n, "watch", 25) }},
		{"max-user-clients", "mallory", func(t *testing.T, n *node) { manyConnections(t, n, "mallory", 100) }},
		{"max-user-sessions", "mallory", manySessions},
		{"max-user-subscriptions", "mallory", manySubscriptions},
		{"max-user-queue", "mallory", longQueue},
	} {
		t.Run(attack.limit+" of "+attack.user, func(t *testing.T) {
			n.grows(t, 1, limited, attack.limit, func() { h.during(t, func() { attack.run(t, n) }) })
			if !n.Out.Has("limit=" + attack.limit + " user=" + attack.user) {
				t.Errorf("the log does not name who did it: %s", n.Printed())
			}
			h.goOn(t)
			nowMedian, nowMost := n.latency(t)
			t.Logf("a publication takes %.1f times as long at the median, %.1f at the 99th percentile; %+d MB resident",
				float64(nowMedian)/float64(median), float64(nowMost)/float64(most), (n.memory(t, "VmRSS")-base)>>20)
		})
	}
}

func manyConnections(t *testing.T, n *node, user string, most int) {
	var all []*raw
	refused := 0
	median, worst := n.latency(t)
	for range 3 * most {
		c, code := n.enter(t, user, user, "")
		if code != 0 {
			refused++
			_ = c.Close()
			continue
		}
		c.subscribe(t, 4, "#")
		go func() { _, _ = io.Copy(io.Discard, c.in) }() // ends with the connection
		all = append(all, c)
	}
	t.Logf("%d connections on #, %d refused", len(all), refused)
	if len(all) != most {
		t.Errorf("%d connections of one user", len(all))
	}
	nowMedian, nowWorst := n.latency(t)
	t.Logf("meanwhile a publication takes %v at the median and %v at the 99th percentile, before %v and %v", nowMedian, nowWorst, median, worst)
	for _, c := range all {
		c.part(t)
	}
}

func manySessions(t *testing.T, n *node) {
	const most = 16
	kept := 0
	for i := range 300 {
		c, _, code := n.keep(t, "mallory", fmt.Sprint("left", i), 0)
		if code == 0 {
			kept++
			c.subscribe(t, 4, "#")
			c.part(t)
		}
	}
	if kept != most {
		t.Errorf("%d sessions of one user", kept)
	}
	for i := range most { // makes room again
		c := n.stranger(t)
		c.send(t, packet(0x10, str("MQTT"), []byte{4, 0xc2, 0, 60}, str(fmt.Sprint("left", i)), str("mallory"), str("mallory")))
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if first, body, err := c.next(); err != nil || first != 0x20 || body[1] != 0 {
			t.Fatalf("a clean session in its place: %#x %v %v", first, body, err)
		}
		c.part(t)
	}
}

func manySubscriptions(t *testing.T, n *node) {
	const most, each = 10_000, 50
	before := n.sum(t, "padme_broker_subscriptions")
	var clients []*raw
	for range 3 {
		c := n.as(t, "mallory")
		clients = append(clients, c)
		for p := range most / each / 2 {
			var all []string
			for f := range each {
				all = append(all, fmt.Sprintf("%sdata/%d/%d/+/+/+", r, p, f))
			}
			c.subscribe(t, 4, all...)
		}
	}
	if got := n.sum(t, "padme_broker_subscriptions") - before; got > most {
		t.Errorf("%v subscriptions of one user", got)
	}
	for _, c := range clients {
		c.part(t)
	}
}

func longQueue(t *testing.T, n *node) {
	const size, most = 100_000, 64 << 20
	topic := r + "data/p/t/k/mallory/w"
	absent, _, code := n.keep(t, "mallory", "absent", 0)
	if code != 0 {
		t.Fatalf("CONNACK %d", code)
	}
	absent.subscribe(t, 4, topic)
	absent.part(t)
	before := n.sum(t, "padme_broker_unacknowledged_messages")
	c := n.as(t, "mallory")
	load := bytes.Repeat([]byte("x"), size)
	for i := range 2 * most / size {
		c.send(t, packet(0x32, str(topic), []byte{byte((i + 1) >> 8), byte(i + 1)}, load))
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if first, _, err := c.next(); err != nil || first != 0x40 {
			t.Fatalf("no PUBACK: %#x %v", first, err)
		}
	}
	if got := n.sum(t, "padme_broker_unacknowledged_messages") - before; got > most/size+10 {
		t.Errorf("%v messages of %d bytes wait", got, size)
	}
}
