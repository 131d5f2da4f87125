package broker_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/poll"
)

const (
	toBob   = "padme/v1/default/node/bob/alice"
	toAlice = "padme/v1/default/node/alice/bob"
)

// listen subscribes to everything at QoS 0.
func (c *rawConn) listen() {
	c.t.Helper()
	c.send(packet(0x82, []byte{0, 1}, text("#"), []byte{0}))
	c.receive()
}

// A subscriber that does not read for a while gets all that is sent to an inbox, in order: what
// its socket does not take at once waits.
func TestDirectMessagesKeepTheirOrder(t *testing.T) {
	for name, cfg := range map[string]broker.Config{"tcp": {TCP: "127.0.0.1:0"}, "in process": {}} {
		t.Run(name, func(t *testing.T) {
			const messages = 3000 // of 3 MB, more than a pipe takes and fewer than may wait
			b := start(t, cfg)
			subscriber, publisher := raw(t, b), raw(t, b)
			subscriber.connect("subscriber", "", "", "")
			subscriber.listen()
			publisher.connect("publisher", "", "", "")
			for i := range messages {
				number := binary.BigEndian.AppendUint32(nil, uint32(i))
				publisher.send(packet(0x30, text(toBob), number, make([]byte, 1000)))
			}
			for i := range messages {
				_, body := subscriber.receive()
				if got := int(binary.BigEndian.Uint32(body[2+len(toBob):])); got != i {
					t.Fatalf("message %d came in place of %d", got, i)
				}
			}
		})
	}
}

// Of messages to an inbox that nobody reads, a bounded amount waits, and the rest is dropped.
func TestDirectMessagesDoNotPileUp(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{WriteTimeout: time.Hour}})
	stalled, publisher := raw(t, b), raw(t, b)
	stalled.connect("stalled", "", "", "")
	stalled.listen()
	publisher.connect("publisher", "", "", "")
	go func() {
		for big := packet(0x30, text(toBob), make([]byte, 100_000)); ; {
			if _, err := publisher.Write(big); err != nil {
				return
			}
		}
	}()
	dropped := func() float64 { return gather(t, registry)["padme_broker_messages_dropped_total"] }
	poll.UntilOr(t, func() bool { return dropped() > 100 }, func() string { return "nothing is dropped" })
}

// How much may wait follows from Limits.Unsent: who raises it loses nothing of what waited beyond.
func TestMoreDirectMessagesMayWait(t *testing.T) {
	const messages = 2000 // of 20 MB, more than a socket and the default take
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{WriteTimeout: time.Hour, Unsent: 1 << 16}})
	slow, publisher := raw(t, b), raw(t, b)
	slow.connect("slow", "", "", "")
	slow.listen()
	publisher.connect("publisher", "", "", "")
	for range messages {
		publisher.send(packet(0x30, text(toBob), make([]byte, 10_000)))
	}
	publisher.send([]byte{0xc0, 0}) // answered when all of that was handed on
	publisher.receive()
	if n := gather(t, registry)["padme_broker_limited_total/max-unsent"]; n > 0 {
		t.Fatalf("%v were dropped", n)
	}
	for range messages {
		slow.receive()
	}
}

// Who is attached is called for messages at QoS 0, and publishes by calls what its user may.
func TestAttached(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	alice, bob := calls(t, b, "alice"), calls(t, b, "bob")
	got := make(chan string, 10)
	bob.a.Attach(func(topic string, payload []byte) { got <- topic + " " + string(payload) })
	alice.a.Attach(func(topic string, payload []byte) { t.Errorf("alice got %s", topic) })
	alice.listen()
	bob.listen()
	if !alice.a.Post(toBob, []byte("called")) {
		t.Error("a message that needs no packet was not taken")
	}
	if alice.a.Post(toAlice, []byte("forged")) {
		t.Error("alice may write in bob's name")
	}
	if alice.a.Post("padme/v1/default/presence/alice", []byte("here")) {
		t.Error("what is for no inbox was taken")
	}
	alice.send(packet(0x30, text(toAlice), []byte("forged")))
	alice.send(packet(0x30, text(toBob), []byte("written")))
	for _, want := range []string{" called", " written"} {
		if g := <-got; g != toBob+want {
			t.Errorf("bob got %q, want %q", g, want)
		}
	}
	alice.send(packet(0x32, text(toBob), []byte{0, 7}, []byte("once"))) // which bob is to get at QoS 0
	if g := <-got; g != toBob+" once" {
		t.Errorf("bob got %q", g)
	}
	alice.send(packet(0x31, text(toBob), []byte("retained"))) // as bytes
	if first, _ := bob.receive(); first>>4 != 3 {
		t.Errorf("bob received %#x", first)
	}
}

// Subscribers of MQTT 5 get the same messages, on the way of all others.
func TestDirectMessagesReachMQTT5(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	old, five, publisher := raw(t, b), raw(t, b), raw(t, b)
	old.connect("old", "", "", "")
	old.listen()
	publisher.connect("publisher", "", "", "")
	publisher.send(packet(0x30, text(toBob), []byte("1")))
	old.receive()
	five.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text("five")))
	five.receive()
	five.send(packet(0x82, []byte{0, 1, 0}, text("#"), []byte{0}))
	five.receive()
	publisher.send(packet(0x30, text(toBob), []byte("2")))
	if _, body := five.receive(); !bytes.HasSuffix(body, []byte("2")) {
		t.Errorf("the subscriber of MQTT 5 got %q", body)
	}
	if _, body := old.receive(); !bytes.HasSuffix(body, []byte("2")) {
		t.Errorf("the other got %q", body)
	}
}

// Who sends nothing but messages to inboxes is alive.
func TestDirectMessagesKeepAlive(t *testing.T) {
	t.Parallel()
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	c := raw(t, b)
	c.send(packet(0x10, text("MQTT"), []byte{4, 2, 0, 1}, text("c"))) // a second, of which half more is allowed
	c.receive()
	c.listen()
	for range 12 {
		time.Sleep(200 * time.Millisecond)
		c.send(packet(0x30, text(toBob)))
		c.receive()
	}
}

type caller struct {
	*rawConn
	a *broker.Attached
}

func calls(t *testing.T, b *broker.Broker, user string) caller {
	t.Helper()
	c := raw(t, b)
	c.connect(user, user, "", "")
	return caller{c, c.Conn.(*broker.Attached)}
}

// A client that sends all it has to say at once and ends its side, as a pipe into the network does, is heard.
func TestWhatIsSentBeforeTheEndIsHeard(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0"})
	subscriber := raw(t, b)
	subscriber.connect("subscriber", "", "", "")
	subscriber.listen()
	for i := range 50 {
		c, err := net.Dial("tcp", b.TCPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		connect := packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("brief"))
		publish := packet(0x30, text("news"), []byte{byte(i)})
		if _, err := c.Write(slices.Concat(connect, publish, []byte{0xe0, 0})); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, body := subscriber.receive(); body[len(body)-1] != byte(i) {
			t.Fatalf("message %d came in place of %d", body[len(body)-1], i)
		}
		_ = c.Close()
	}
}
