package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/bubble"
	"padme/tests/capture"
	"padme/tests/poll"
)

// keep connects with a session that is to outlive the connection: by MQTT 3.1.1, or by 5
// with an expiry in seconds. A user's password is its name. It returns the CONNACK.
func keep(t testing.TB, b *broker.Broker, id, user string, expiry uint32) (*rawConn, []byte) {
	t.Helper()
	c := raw(t, b)
	flags, body := byte(0), text(id)
	if user != "" {
		flags, body = 0xc0, append(append(body, text(user)...), text(user)...)
	}
	head := []byte{4, flags, 0, 0}
	if expiry > 0 {
		head = binary.BigEndian.AppendUint32([]byte{5, flags, 0, 0, 5, 0x11}, expiry)
	}
	c.send(packet(0x10, text("MQTT"), head, body))
	first, answer := c.receive()
	if first != 0x20 {
		t.Fatalf("instead of a CONNACK: %#x", first)
	}
	return c, answer
}

// subscribe of MQTT 3.1.1 or 5 returns the codes.
func (c *rawConn) subscribe(version int, filters ...string) []byte {
	c.t.Helper()
	body := []byte{0, 7}
	if version == 5 {
		body = append(body, 0)
	}
	for _, f := range filters {
		body = append(append(body, text(f)...), 1)
	}
	c.send(packet(0x82, body))
	first, answer := c.receive()
	if first != 0x90 {
		c.t.Fatalf("instead of a SUBACK: %#x", first)
	}
	return answer[len(answer)-len(filters):]
}

// leave disconnects, by MQTT 5 with an expiry if it is not negative, and waits until the
// broker has noticed.
func (c *rawConn) leave(expiry int64) {
	c.t.Helper()
	if expiry >= 0 {
		c.send(packet(0xe0, []byte{0, 5, 0x11}, binary.BigEndian.AppendUint32(nil, uint32(expiry))))
	} else {
		c.send([]byte{0xe0, 0})
	}
	c.gone()
	_ = c.Close()
}

// tells reports whether a CONNACK names a session's expiry.
func tells(connack []byte, seconds uint32) bool {
	return bytes.Contains(connack, binary.BigEndian.AppendUint32([]byte{0x11}, seconds))
}

// sessionExpiry is short, because a virtual hour takes a second.
const sessionExpiry = 20 * time.Minute

// A session waits for its client as long as it may, in both versions, in memory and on
// disk. Then nothing of it is left: who comes under its id gets nothing for its
// subscriptions.
func TestSessionsExpire(t *testing.T) {
	for _, tc := range []struct {
		name         string
		asks, leaves int64 // seconds; for MQTT 3.1.1 none
		told         bool
		lasts        time.Duration
	}{
		{"MQTT 3.1.1", 0, -1, false, sessionExpiry},
		{"for ever", 0xffffffff, -1, true, sessionExpiry},
		{"a minute", 60, -1, false, time.Minute},
		{"a change of mind", 60, 600, false, 10 * time.Minute},
		{"a change of mind to for ever", 60, 0xffffffff, false, sessionExpiry},
	} {
		for _, disk := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, disk %v", tc.name, disk), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { sessionExpires(t, tc.asks, tc.leaves, tc.told, tc.lasts, disk) })
			})
		}
	}
}

func sessionExpires(t *testing.T, asks, leaves int64, told bool, lasts time.Duration, disk bool) {
	registry := prometheus.NewRegistry()
	cfg := broker.Config{Metrics: registry, Limits: broker.Limits{SessionExpiry: sessionExpiry}}
	if disk {
		cfg.DataDir = t.TempDir()
	}
	b := start(t, cfg)
	version := 4
	if asks > 0 {
		version = 5
	}
	sessions := func() float64 { return gather(t, registry)["padme_broker_sessions"] }
	subscriptions := func() float64 { return gather(t, registry)["padme_broker_subscriptions"] }
	c, connack := keep(t, b, "s", "", uint32(asks))
	if connack[1] != 0 || told != tells(connack, uint32(sessionExpiry/time.Second)) {
		t.Fatalf("CONNACK %v", connack)
	}
	c.subscribe(version, "q", "q/+", "r/#")
	c.leave(leaves)
	time.Sleep(lasts - time.Second)
	c, connack = keep(t, b, "s", "", uint32(asks))
	if connack[0] != 1 || subscriptions() != 3 {
		t.Fatalf("gone too early: CONNACK %v, %v subscriptions", connack, subscriptions())
	}
	c.leave(leaves)
	time.Sleep(lasts + 3*time.Second)
	if sessions() != 0 || subscriptions() != 0 {
		t.Errorf("%v sessions and %v subscriptions are left", sessions(), subscriptions())
	}
	if disk {
		stop(t, b)
		cfg.Metrics = nil
		b = start(t, cfg)
	}
	heir := raw(t, b)
	heir.connect("s", "", "", "")
	pub, err := dial(t, inProcess(b))
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Disconnect(50)
	pub.publish("q", "for the former", 1, false)
	heir.subscribe(4, "mine")
	pub.publish("mine", "x", 1, false)
	if first, body := heir.receive(); first&0xf0 != 0x30 || !bytes.Contains(body, []byte("mine")) {
		t.Errorf("the first that comes to the new session is %#x %q", first, body)
	}
}

// An observer's session ends with its connection, and it is told so.
func TestObserversHaveNoSessions(t *testing.T) {
	registry := prometheus.NewRegistry()
	var log capture.Text
	b := start(t, broker.Config{Users: cast(t), Metrics: registry, Logger: log.Logger()})
	for _, expiry := range []uint32{0, 1000, 0xffffffff} {
		version := 4
		if expiry > 0 {
			version = 5
		}
		for range 2 {
			c, connack := keep(t, b, "w", "watch", expiry)
			if connack[0] != 0 || connack[1] != 0 || tells(connack, 0) != (version == 5) {
				t.Errorf("version %d: CONNACK %v", version, connack)
			}
			c.subscribe(version, "#")
			c.leave(-1)
			poll.UntilOr(t, func() bool { return gather(t, registry)["padme_broker_sessions"] == 0 },
				func() string { return "the session is still there" })
		}
	}
	if got := gather(t, registry)["padme_broker_limited_total/max-user-sessions"]; got != 6 {
		t.Errorf("counted %v times", got)
	}
	if lines := strings.Count(log.String(), "limit reached"); lines != 1 || !strings.Contains(log.String(), "user=watch") {
		t.Errorf("%d lines: %s", lines, log.String())
	}
}

// Sessions that end because of the limit, and not because their clients want it so, are counted, and
// their user is named once a minute.
func TestSessionsThatTheLimitEndsAreCounted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		registry, log := prometheus.NewRegistry(), &capture.Text{}
		b := start(t, broker.Config{
			Users: cast(t), Metrics: registry, Logger: log.Logger(), Limits: broker.Limits{SessionExpiry: sessionExpiry},
		})
		for i, expiry := range []uint32{0, 0, 0xffffffff, 60, 60} { // the last two as they want
			c, _ := keep(t, b, fmt.Sprint("s", i), "alice", expiry)
			c.leave(-1)
		}
		time.Sleep(sessionExpiry + 3*time.Second)
		if n := gather(t, registry)["padme_broker_limited_total/session-expiry"]; n != 3 {
			t.Errorf("%v are counted", n)
		}
		if n := strings.Count(log.String(), "limit=session-expiry user=alice"); n != 1 {
			t.Errorf("%d lines: %s", n, log.String())
		}
	})
}

// What an observer left behind before it was one is gone at the next start.
func TestSessionsFromBeforeARole(t *testing.T) {
	users, cfg := cast(t), broker.Config{DataDir: t.TempDir()}
	cfg.Users = users
	b := start(t, cfg)
	c, _ := keep(t, b, "w", "alice", 0)
	c.subscribe(4, "#")
	c.leave(-1)
	stop(t, b)
	if err := users.Grant("alice", broker.Observer); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	start(t, cfg)
	if n := gather(t, registry)["padme_broker_sessions"]; n != 0 {
		t.Errorf("%v sessions are left", n)
	}
}
