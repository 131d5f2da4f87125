package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/capture"
	"padme/tests/poll"
)

// One user's connections end at its quota, those of another do not; a client that comes
// back, whose former connection still stands, is let in.
func TestOneUserCannotTakeAllConnections(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Users: cast(t), Metrics: registry, Limits: broker.Limits{UserClients: 3}})
	var first *rawConn
	for i := range 3 {
		c := raw(t, b)
		c.connect(fmt.Sprint("c", i), "alice", "", "")
		if i == 0 {
			first = c
		}
	}
	if _, connack := keep(t, b, "c3", "alice", 0); connack[1] != 3 {
		t.Errorf("MQTT 3.1.1: CONNACK %v", connack)
	}
	if _, connack := keep(t, b, "c3", "alice", 9); connack[1] != 0x97 {
		t.Errorf("MQTT 5: CONNACK %v", connack)
	}
	raw(t, b).connect("c3", "bob", "", "")
	raw(t, b).connect("c1", "alice", "", "") // takes the place of the former
	raw(t, b).connect("w", "watch", "", "")
	if _, connack := keep(t, b, "w2", "watch", 9); connack[1] != 0x97 {
		t.Errorf("the second connection of an observer: CONNACK %v", connack)
	}
	first.leave(-1)
	poll.UntilOr(t, func() bool { c, connack := keep(t, b, "c9", "alice", 9); _ = c.Close(); return connack[1] == 0 },
		func() string { return "a place that was left is not free" })
	got := gather(t, registry)
	if n := got["padme_broker_limited_total/max-user-clients"]; n < 2 || n != got["padme_broker_refused_total/connect"] {
		t.Errorf("%v counted, %v refused", n, got["padme_broker_refused_total/connect"])
	}
}

// One user's sessions end at its quota, also over a restart; one that it has may be
// resumed, and clean ones are not counted.
func TestOneUserCannotLeaveManySessions(t *testing.T) {
	cfg := broker.Config{Users: cast(t), DataDir: t.TempDir(), Limits: broker.Limits{UserSessions: 2}}
	b := start(t, cfg)
	for range 2 {
		for i, expiry := range []uint32{0, 1000} {
			c, connack := keep(t, b, fmt.Sprint("s", i), "alice", expiry)
			if connack[1] != 0 {
				t.Fatalf("s%d: CONNACK %v", i, connack)
			}
			c.leave(-1)
		}
		if _, connack := keep(t, b, "s2", "alice", 0); connack[1] != 3 {
			t.Errorf("MQTT 3.1.1: CONNACK %v", connack)
		}
		if _, connack := keep(t, b, "s2", "alice", 1000); connack[1] != 0x97 {
			t.Errorf("MQTT 5: CONNACK %v", connack)
		}
		raw(t, b).connect("s2", "alice", "", "")
		if c, connack := keep(t, b, "s0", "bob", 0); connack[1] != 0 {
			t.Errorf("bob: CONNACK %v", connack)
		} else {
			c.leave(-1)
		}
		stop(t, b)
		b = start(t, cfg)
	}
	c, _ := keep(t, b, "s1", "alice", 1000)
	c.leave(0) // gives it up
	poll.UntilOr(t, func() bool { c, connack := keep(t, b, "s2", "alice", 0); _ = c.Close(); return connack[1] == 0 },
		func() string { return "the place of a session that was given up is not free" })
}

// One user's subscriptions end at its quota, over all its sessions.
func TestOneUserCannotSubscribeToEverything(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t), Limits: broker.Limits{UserSubscriptions: 5}})
	of := func(names ...string) []string {
		for i, n := range names {
			names[i] = "padme/v1/default/presence/" + n
		}
		return names
	}
	want := func(what string, got []byte, codes ...byte) {
		t.Helper()
		if !bytes.Equal(got, codes) {
			t.Errorf("%s: SUBACK %v", what, got)
		}
	}
	absent, _ := keep(t, b, "absent", "alice", 0)
	want("absent", absent.subscribe(4, of("a", "b")...), 1, 1)
	absent.leave(-1)
	four := raw(t, b)
	four.connect("four", "alice", "", "")
	five, _ := keep(t, b, "five", "alice", 1)
	want("four", four.subscribe(4, of("a", "b")...), 1, 1)
	want("five", five.subscribe(5, of("a", "b", "c")...), 1, 0x97, 0x97)
	want("again", four.subscribe(4, of("b", "c")...), 1, 0x80)
	four.send(packet(0xa2, []byte{0, 9}, text(of("a")[0])))
	four.receive()
	want("after an UNSUBSCRIBE", five.subscribe(5, of("d")...), 1)
	bob := raw(t, b)
	bob.connect("bob", "bob", "", "")
	want("bob", bob.subscribe(4, of("a", "b", "c", "d", "e")...), 1, 1, 1, 1, 1)
	four.leave(-1)
	poll.UntilOr(t, func() bool { return five.subscribe(5, of("e")...)[0] == 1 }, func() string { return "those of an ended session still count" })
}

// What waits for one user's absent sessions ends at its quota, over a restart too; another
// user has a quota of its own, and a session that has come back has room again.
func TestOneUserCannotQueueWithoutEnd(t *testing.T) {
	cfg := broker.Config{Users: cast(t), DataDir: t.TempDir(), Limits: broker.Limits{UserQueue: 20_000}}
	begin := func() (*broker.Broker, *prometheus.Registry) {
		registry := prometheus.NewRegistry()
		cfg.Metrics = registry
		return start(t, cfg), registry
	}
	b, registry := begin()
	for _, s := range []string{"alice/0", "alice/1", "bob/0"} {
		user, id, _ := strings.Cut(s, "/")
		c, _ := keep(t, b, id, user, 0)
		c.subscribe(4, "padme/v1/default/presence/+")
		c.leave(-1)
	}
	load := strings.Repeat("x", 976)
	flood := func() {
		t.Helper()
		root := connect(t, inProcess(b), as("root", "root"))
		for range 20 { // with its topic somewhat more than 2000 bytes each
			root.publish("padme/v1/default/presence/x", load, 1, false)
		}
		root.Disconnect(50)
	}
	waits := func(user, id string) int {
		t.Helper()
		c := connect(t, inProcess(b), as(user, user), session(id))
		c.publish("padme/v1/default/presence/"+user, "end", 1, false)
		poll.UntilOr(t, func() bool { p := c.payloads(); return len(p) > 0 && p[len(p)-1] == "end" }, func() string { return "the end has not come" })
		n := len(c.payloads())
		c.Disconnect(50)
		return n
	}
	flood()
	wantWaiting := func(registry *prometheus.Registry) { // the publisher's last acknowledgement waits as well until it is on its way
		t.Helper()
		n := func() float64 { return gather(t, registry)["padme_broker_unacknowledged_messages"] }
		poll.UntilOr(t, func() bool { return n() == 10+10 }, func() string { return fmt.Sprint(n(), " messages wait") })
	}
	wantWaiting(registry)
	got := gather(t, registry)
	if n := got["padme_broker_limited_total/max-user-queue"]; n != 40 || got["padme_broker_messages_dropped_total"] != n {
		t.Errorf("%v counted, %v dropped", n, got["padme_broker_messages_dropped_total"])
	}
	stop(t, b)
	b, registry = begin()
	flood()
	wantWaiting(registry)
	if n := waits("alice", "0") + waits("alice", "1"); n < 10 || n > 15 {
		t.Errorf("alice got %d", n)
	}
	if n := waits("bob", "0"); n < 10 || n > 12 {
		t.Errorf("bob got %d", n)
	}
	gone := func() bool { return gather(t, registry)["padme_broker_clients"] == 0 }
	poll.UntilOr(t, gone, func() string { return "somebody is still there, to whom messages go" })
	dropped := gather(t, registry)["padme_broker_messages_dropped_total"]
	flood()
	if n := gather(t, registry)["padme_broker_messages_dropped_total"] - dropped; n < 40 || n > 45 {
		t.Errorf("what was fetched still counts: %v dropped", n)
	}
}

// Whatever goes beyond a limit is counted under its flag, and the log names who did.
func TestEveryLimitIsCounted(t *testing.T) {
	serverTLS, _ := certificates(t)
	for name, tc := range map[string]struct {
		who    string
		limits broker.Limits
		config broker.Config
		exceed func(*testing.T, *broker.Broker)
	}{
		"max-clients": {"address=in-process", broker.Limits{Clients: 1}, broker.Config{}, func(t *testing.T, b *broker.Broker) {
			raw(t, b).connect("a", "", "", "")
			if _, err := b.Dial(t.Context()); err == nil {
				t.Error("it was let in")
			}
		}},
		"max-packet": {"user=alice", broker.Limits{PacketSize: 1000}, broker.Config{Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			c := raw(t, b)
			c.connect("a", "alice", "", "")
			c.send(packet(0x30, text("t"), make([]byte, 1000)))
			c.gone()
		}},
		"max-queue": {"user=alice", broker.Limits{Queue: 5}, broker.Config{Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			const topic = "padme/v1/default/presence/bob"
			c, _ := keep(t, b, "a", "alice", 0)
			c.subscribe(4, topic)
			c.leave(-1)
			pub := connect(t, inProcess(b), as("bob", "bob"))
			for range 10 {
				pub.publish(topic, "x", 1, false)
			}
		}},
		"max-retained": {"user=bob", broker.Limits{Retained: 1}, broker.Config{Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			connect(t, inProcess(b), as("bob", "bob")).publish("padme/v1/default/presence/bob", "x", 1, true)
		}},
		"connect-timeout": {
			"address=127.0.0.1",
			broker.Limits{ConnectTimeout: 100 * time.Millisecond},
			broker.Config{TCP: "127.0.0.1:0"},
			func(t *testing.T, b *broker.Broker) { raw(t, b).gone() },
		},
		"connect-timeout of TLS": {
			"address=127.0.0.1",
			broker.Limits{ConnectTimeout: 100 * time.Millisecond},
			broker.Config{TCP: "127.0.0.1:0", TLS: serverTLS},
			func(t *testing.T, b *broker.Broker) { raw(t, b).gone() },
		},
		"max-unsent": {"user=alice", broker.Limits{Unsent: 64}, broker.Config{TCP: "127.0.0.1:0", Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			c := raw(t, b)
			c.connect("a", "alice", "", "")
			c.send(packet(0x82, []byte{0, 1}, text("#"), []byte{0}))
			c.receive() // the subscription is there, and nothing of it is read
			pub := connect(t, at(b.URL()), as("bob", "bob"))
			for range 500 {
				pub.publish("padme/v1/default/presence/bob", strings.Repeat("x", 100_000), 0, false)
			}
		}},
		"max-unsent to an inbox": {"user=alice", broker.Limits{Unsent: 64}, broker.Config{TCP: "127.0.0.1:0", Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			c := raw(t, b)
			c.connect("a", "alice", "", "")
			c.send(packet(0x82, []byte{0, 1}, text("padme/v1/default/node/alice/#"), []byte{0}))
			c.receive() // the subscription is there, and nothing of it is read
			pub := connect(t, at(b.URL()), as("bob", "bob"))
			for range 5000 {
				pub.publish("padme/v1/default/node/alice/bob", strings.Repeat("x", 10_000), 0, false)
			}
		}},
		"write-timeout": {"user=alice", broker.Limits{WriteTimeout: 100 * time.Millisecond}, broker.Config{TCP: "127.0.0.1:0", Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			c := raw(t, b)
			c.connect("a", "alice", "", "")
			c.send(packet(0x82, []byte{0, 1}, text("#"), []byte{0}))
			c.receive() // the subscription is there, and nothing of it is read
			pub := connect(t, at(b.URL()), as("bob", "bob"))
			for range 200 {
				pub.publish("padme/v1/default/presence/bob", strings.Repeat("x", 100_000), 1, false)
			}
		}},
		"write-timeout without acknowledgements": {"user=alice", broker.Limits{Queue: 100, WriteTimeout: 100 * time.Millisecond}, broker.Config{Users: cast(t)}, func(t *testing.T, b *broker.Broker) {
			c := raw(t, b)
			c.connect("a", "alice", "", "")
			c.send(packet(0x82, []byte{0, 1}, text("#"), []byte{1}))
			c.receive() // the subscription is there
			pub := connect(t, inProcess(b), as("bob", "bob"))
			for range 200 {
				pub.Publish("padme/v1/default/presence/bob", 1, false, "x")
			}
			c.gone()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			limit, _, _ := strings.Cut(name, " ")
			registry := prometheus.NewRegistry()
			var log capture.Text
			cfg := tc.config
			cfg.Limits, cfg.Metrics, cfg.Logger = tc.limits, registry, log.Logger()
			tc.exceed(t, start(t, cfg))
			poll.UntilOr(t, func() bool { return gather(t, registry)["padme_broker_limited_total/"+limit] > 0 },
				func() string { return "it is not counted: " + log.String() })
			line := "limit=" + limit + " " + tc.who // which is written after it is counted
			poll.UntilOr(t, func() bool { return strings.Contains(log.String(), line) },
				func() string { return "the log has no " + line + ": " + log.String() })
		})
	}
}

// Whatever its sender and its receiver choose, the disk gets no more of a message than is
// charged. In JSON a control character takes six bytes.
func TestTheDiskGetsWhatIsCharged(t *testing.T) {
	const most = 300_000
	odd := strings.Repeat("\x01", 500)
	for name, tc := range map[string]struct {
		receiver, sender, level, property string
		retain                            byte
		filters                           int
	}{
		"ordinary":                            {"r", "s", "t", "", 0, 1},
		"the id of the receiver":              {odd, "s", "t", "", 0, 1},
		"the id of the sender":                {"r", odd, "t", "", 0, 1},
		"the topic":                           {"r", "s", odd + odd + odd, "", 0, 1},
		"many subscriptions":                  {"r", "s", "t", "", 0, 128},
		"a property":                          {"r", "s", "t", odd + odd + odd, 0, 1},
		"the topic of what is retained":       {"r", "s", strings.Repeat(odd, 20), "", 1, 0},
		"a property of something retained":    {"r", "s", "t", strings.Repeat(odd, 20), 1, 0},
		"quotes in a property, retained":      {"r", "s", "t", strings.Repeat("\"", 20_000), 1, 0},
		"ampersands in a property, retained":  {"r", "s", "t", strings.Repeat("&", 20_000), 1, 0},
		"line separators in a topic, of JSON": {"r", "s", strings.Repeat("\u2028", 700), "", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, broker.Config{Users: cast(t), DataDir: dir, Limits: broker.Limits{UserQueue: most, Retained: most}})
			if tc.filters > 0 {
				c, _ := keep(t, b, tc.receiver, "alice", 1000)
				for i := range tc.filters { // each with an identifier
					filter := "padme/v1/default/data/p/+/+/bob/w"
					for bit, level := range []int{0, 1, 2, 3, 4, 7, 8} {
						if i>>bit&1 != 0 {
							at := strings.Split(filter, "/")
							at[level] = "+"
							filter = strings.Join(at, "/")
						}
					}
					c.send(packet(0x82, []byte{0, 7, 5, 11, 0xff, 0xff, 0xff, 0x7f}, text(filter), []byte{1}))
					if _, suback := c.receive(); suback[len(suback)-1] != 1 {
						t.Fatalf("%s: SUBACK %v", filter, suback)
					}
				}
				c.leave(-1)
			}
			c := raw(t, b)
			c.send(connect5(tc.sender, "bob", "bob", 0))
			c.receive()
			property := append([]byte{38, 0, 1, 'k'}, text(tc.property)...)
			property = append(binary.AppendUvarint(nil, uint64(len(property))), property...)
			for i := range 600 {
				c.send(packet(0x32|tc.retain, text(fmt.Sprint("padme/v1/default/data/p/", tc.level, "/", i, "/bob/w")), []byte{0, 7}, property, []byte("x")))
				c.receive()
			}
			info, err := os.Stat(dir + "/broker.log")
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes are charged at most, the log has %d", most, info.Size())
			if info.Size() > most*11/10 {
				t.Errorf("%d bytes are charged at most, the log has %d", most, info.Size())
			}
		})
	}
}

// The number of filters bounds what they take, as each is bounded: 10,000 of 60 KB would be
// 4 GB on disk.
func TestFiltersAreNotLong(t *testing.T) {
	for _, users := range []*broker.Users{nil, cast(t)} {
		log := &capture.Text{}
		b := start(t, broker.Config{Users: users, Logger: log.Logger()})
		base := "padme/v1/default/data/p/t/k/+/"
		granted := base + strings.Repeat("w", 5120-len(base))
		for _, f := range []struct {
			filter string
			code   byte
		}{{granted, 1}, {granted + "w", 0x80}, {base + strings.Repeat("\x01", 860), 0x80}} {
			c := raw(t, b)
			c.connect("c", "alice", "", "")
			if code := c.subscribe(4, f.filter); code[0] != f.code {
				t.Errorf("%d bytes: SUBACK %v, want %d", len(f.filter), code, f.code)
			}
		}
		if c := five(t, b, "five"); c.subscribe(5, granted+"w")[0] < 0x80 {
			t.Error("MQTT 5: it was granted")
		}
		poll.UntilOr(t, func() bool { return strings.Count(log.String(), "too long") == 1 }, log.String)
		if user := users == nil || strings.Contains(log.String(), "user=alice"); !user || !strings.Contains(log.String(), "bytes=5121 limit=5120") {
			t.Error("neither who it was nor how much is told: " + log.String())
		}
	}
}

// Users that hoard together are bounded, too, and take nothing from one that does not.
func TestAbsentSessionsOfAllUsersAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{Users: cast(t), Metrics: registry, Limits: broker.Limits{UserQueue: 320_000, Absent: 100_000}})
	load := strings.Repeat("x", 976) // with its topic somewhat more than 2000 bytes each
	root := connect(t, inProcess(b), as("root", "root"))
	absent := func(user string) {
		t.Helper()
		c, _ := keep(t, b, "0", user, 0)
		c.subscribe(4, "padme/v1/default/presence/"+map[string]string{"alice": "x", "bob": "y"}[user])
		c.leave(-1)
		poll.UntilOr(t, func() bool { return gather(t, registry)["padme_broker_clients"] == 1 }, func() string { return "it is still there" })
	}
	absent("alice")
	for range 100 {
		root.publish("padme/v1/default/presence/x", load, 1, false)
	}
	waiting := func() float64 { return gather(t, registry)["padme_broker_unacknowledged_messages"] }
	dropped := gather(t, registry)["padme_broker_limited_total/max-absent"]
	if dropped < 45 || dropped > 55 {
		t.Errorf("%v messages of the one that hoards were dropped", dropped)
	}
	before := waiting()
	absent("bob")
	for range 10 {
		root.publish("padme/v1/default/presence/y", load, 1, false)
	}
	poll.UntilOr(t, func() bool { return waiting()-before >= 2 }, func() string { return "nothing waits for the one that does not hoard" })
	if n := gather(t, registry)["padme_broker_limited_total/max-absent"] - dropped; n < 5 || n > 8 {
		t.Errorf("%v messages of the other were dropped", n)
	}
}
