package broker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
)

const (
	toServer = "padme/v1/default/lock/crane/client/esp/request"
	toClient = "padme/v1/default/lock/crane/client/esp/answer"
)

// bridged is a server of clients in the process, which is called with what they ask.
func bridged(t *testing.T, b *broker.Broker, qos byte) (bridge caller, called chan string) {
	t.Helper()
	bridge, called = calls(t, b, "bridge"), make(chan string, 100)
	bridge.a.Attach(func(topic string, payload []byte) { called <- topic + " " + string(payload) })
	bridge.send(packet(0x82, []byte{0, 1}, text("padme/v1/default/lock/+/client/+/request"), []byte{qos}))
	bridge.receive()
	return bridge, called
}

// What a client asks, at either QoS, has been handed to the server in the process when it is
// acknowledged, by its own goroutine, and so has its will before a later connection's request. The
// answers are sent by calls, too.
func TestClientsAreServedByCalls(t *testing.T) {
	for name, reads := range map[string]func(t *testing.T, b *broker.Broker){
		"nobody else reads": func(*testing.T, *broker.Broker) {},
		"an administrator at QoS 1": func(t *testing.T, b *broker.Broker) {
			root := raw(t, b)
			root.connect("root", "root", "", "")
			root.send(packet(0x82, []byte{0, 1}, text("#"), []byte{1}))
			root.receive()
		},
		"the client itself by MQTT 5": func(t *testing.T, b *broker.Broker) {
			five := raw(t, b)
			five.send(packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, 0}, text("five"), text("esp"), text("esp")))
			five.receive()
			five.send(packet(0x82, []byte{0, 1, 0}, text("padme/v1/default/lock/+/client/esp/#"), []byte{0}))
			five.receive()
		},
		"a shared subscription": func(t *testing.T, b *broker.Broker) {
			esp := raw(t, b)
			esp.connect("share", "esp", "", "")
			esp.send(packet(0x82, []byte{0, 1}, text("$share/g/"+toServer), []byte{0}))
			esp.receive()
		},
	} {
		t.Run(name, func(t *testing.T) { testServedByCalls(t, reads) })
	}
}

func testServedByCalls(t *testing.T, reads func(t *testing.T, b *broker.Broker)) {
	b := start(t, broker.Config{Users: cast(t)})
	bridge, called := bridged(t, b, 0)
	reads(t, b)
	want := func(payload string) {
		t.Helper()
		select {
		case got := <-called:
			if got != toServer+" "+payload {
				t.Fatalf("the server was called with %q, want %q", got, payload)
			}
		default:
			t.Fatalf("the server was not called with %q yet", payload)
		}
	}
	esp := raw(t, b)
	esp.send(packet(0x10, text("MQTT"), []byte{4, 0xce, 0, 60}, text("esp"), text(toServer), text("gone"), text("esp"), text("esp")))
	esp.receive()
	esp.send(packet(0x82, []byte{0, 1}, text(toClient), []byte{1}))
	esp.receive()
	esp.send(packet(0x32, text(toServer), []byte{0, 7}, []byte("once")))
	if first, body := esp.receive(); first != 0x40 || !bytes.Equal(body, []byte{0, 7}) {
		t.Fatalf("%#x %v in place of the PUBACK", first, body)
	}
	want("once")
	esp.send(packet(0x30, text(toServer), []byte("at QoS 0")))
	esp.pings()
	want("at QoS 0")
	if name := t.Name(); !bridge.a.Post(toClient, []byte("yes")) { // by MQTT 5 somebody reads it
		if !strings.Contains(name, "MQTT_5") {
			t.Error("an answer needs a packet")
		}
		bridge.send(packet(0x30, text(toClient), []byte("yes")))
	}
	if _, body := esp.receive(); !bytes.HasSuffix(body, []byte("yes")) {
		t.Errorf("the answer: %q", body)
	}
	forger := raw(t, b)
	forger.connect("alice", "alice", "", "")
	forger.send(packet(0x30, text(toServer), []byte("forged")))
	forger.send(packet(0x30, text(toClient), []byte("forged")))
	forger.pings()

	again := raw(t, b)
	again.connect("esp", "esp", "", "")
	again.send(packet(0x30, text(toServer), []byte("again")))
	again.pings()
	want("gone")
	want("again")
	bridge.pings() // and nothing came as bytes before that
}

// A server that wants requests at QoS 1 gets what was published so at QoS 1.
func TestRequestsKeepTheirQoS(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	bridge, called := bridged(t, b, 1)
	esp := raw(t, b)
	esp.connect("esp", "esp", "", "")
	esp.send(packet(0x32, text(toServer), []byte{0, 7}, []byte("once")))
	esp.receive() // the PUBACK
	if len(called) > 0 {
		t.Fatalf("the server was called: %s", <-called)
	}
	if first, body := bridge.receive(); first != 0x32 || !bytes.HasSuffix(body, []byte("once")) {
		t.Errorf("%#x %q", first, body)
	}
}

// Who begins to serve clients is heard of at once, and so is who reads its own requests.
func TestWhoBeginsToServeIsAsked(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	esp := raw(t, b)
	esp.connect("esp", "esp", "", "")
	esp.send(packet(0x30, text(toServer), []byte("nobody hears")))
	esp.pings()
	_, called := bridged(t, b, 0)
	esp.send(packet(0x30, text(toServer), []byte("heard")))
	esp.pings()
	if len(called) != 1 || <-called != toServer+" heard" {
		t.Error("the server was not called")
	}
	other := raw(t, b)
	other.connect("esp", "esp", "", "")
	other.send(packet(0x82, []byte{0, 1}, text(toServer), []byte{0})) // its own
	other.receive()
	other.send(packet(0x30, text(toServer), []byte("to both")))
	if _, body := other.receive(); !bytes.HasSuffix(body, []byte("to both")) {
		t.Errorf("the other got %q", body)
	}
}

// What a user does not read is bounded for all its connections together, whichever way it goes.
func TestWhatClientsDoNotReadIsBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: broker.Limits{UserQueue: 500_000, WriteTimeout: time.Hour, UserRate: 1_000_000}})
	for i := range 4 {
		unread := raw(t, b)
		unread.connect(fmt.Sprint("unread", i), "esp", "", "")
		unread.send(packet(0x82, []byte{0, 1}, text(toClient), []byte{0}))
		unread.receive()
	}
	esp := raw(t, b)
	esp.connect("esp", "esp", "", "")
	load := packet(0x30, text(toClient), bytes.Repeat([]byte("x"), 10_000))
	for n := 0; n < 10_000 && gather(t, registry)["padme_broker_messages_dropped_total"] == 0; n += 10 {
		for range 10 {
			esp.send(load)
		}
		esp.pings()
	}
	if all := gather(t, registry); all["padme_broker_limited_total/max-user-queue"] == 0 || all["padme_broker_limited_total/max-unsent"] > 0 {
		t.Errorf("limited: %v by max-user-queue, %v by max-unsent", all["padme_broker_limited_total/max-user-queue"], all["padme_broker_limited_total/max-unsent"])
	}
}

// What is much longer than requests and answers is sent by mochi, which copies it once for all.
func TestLongMessagesOfClientsAreNotCopied(t *testing.T) {
	b := start(t, broker.Config{Users: cast(t)})
	bridge, _ := bridged(t, b, 0)
	for size, taken := range map[int]bool{2048: true, 16 << 10: true, 16<<10 + 1: false} {
		if bridge.a.Post(toClient, make([]byte, size)) != taken {
			t.Errorf("%d bytes: taken: %v", size, !taken)
		}
	}
}

// pings returns when all that was sent before has been processed.
func (c *rawConn) pings() {
	c.t.Helper()
	c.send([]byte{0xc0, 0})
	if first, _ := c.receive(); first != 0xd0 {
		c.t.Fatalf("%#x in place of a pong", first)
	}
}
