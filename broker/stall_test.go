package broker_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/extent"
	"padme/tests/poll"
)

func TestStalledSubscriberIsCutOff(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	stalled := raw(t, b)
	stalled.connect("stalled", "", "end", "stalled")
	stalled.send(packet(0x82, []byte{0, 1}, text("t"), []byte{1}))
	healthy := connect(t, at(b.URL()))
	healthy.subscribe("t", 1)
	healthy.subscribe("end", 1)
	pub := connect(t, at(b.URL()))
	big := strings.Repeat("x", 100_000)
	const n = 200 // more than the kernel buffers
	for range n {
		pub.publish("t", big, 1, false)
	}
	healthy.receive(n + 1)
	stalled.gone()
}

// What goes on being sent to a client that takes nothing does not keep it.
func TestStalledSubscriberIsCutOffWhateverIsSent(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	stalled := raw(t, b)
	stalled.connect("stalled", "", "end", "stalled")
	stalled.send(packet(0x82, []byte{0, 1}, text(toBob), []byte{0}))
	stalled.receive()
	healthy := connect(t, at(b.URL()))
	healthy.subscribe("end", 1)
	pub := connect(t, at(b.URL()))
	for range 600 { // more than the kernel buffers
		pub.publish(toBob, strings.Repeat("x", 10_000), 0, false)
	}
	poll.UntilOr(t, func() bool {
		pub.publish(toBob, "x", 0, false)
		time.Sleep(10 * time.Millisecond)
		return len(healthy.payloads()) > 0
	}, func() string { return "it is still there" })
}

// Pings of one that reads nothing do not keep it, nor make the broker keep their answers.
func TestPingsOfOneThatDoesNotRead(t *testing.T) {
	b := start(t, broker.Config{WebSocket: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: 500 * time.Millisecond}})
	d := websocket.Dialer{Subprotocols: []string{"mqtt"}}
	ws, answer, err := d.Dial("ws://"+b.WebSocketAddr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	defer func() { _ = ws.Close() }()
	stalled := packet(0x10, text("MQTT"), []byte{4, 2 | 4 | 8, 0, 0}, text("stalled"), text("end"), text("stalled"))
	for _, p := range [][]byte{stalled, packet(0x82, []byte{0, 1}, text("big"), []byte{0})} {
		if err := ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
			t.Fatal(err)
		}
	}
	healthy := connect(t, inProcess(b))
	healthy.subscribe("end", 1)
	poll.UntilOr(t, func() bool {
		healthy.publish("big", strings.Repeat("x", 100_000), 1, false)
		_ = ws.WriteControl(websocket.PingMessage, make([]byte, 125), time.Now().Add(time.Second))
		time.Sleep(10 * time.Millisecond)
		return len(healthy.payloads()) > 0
	}, func() string { return "it is still there" })
}

// Publishers wait for all connections of a user that acknowledge nothing no longer than for
// one: for twenty, one after the other, it would be a minute and a half here.
func TestPublishersWaitForAUserOnce(t *testing.T) {
	extent.Long(t, "patience that runs out")
	t.Parallel()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{Queue: 16, WriteTimeout: patience / 4}})
	const topic = "padme/v1/default/data/p/t/k/bob/w"
	for i := range 20 {
		c := raw(t, b)
		c.connect(fmt.Sprint("lags", i), "alice", "", "")
		c.subscribe(4, topic)
	}
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 40 {
		bob.publish(topic, "x", 1, false)
	}
}

// Nor does another connection of that user, which acknowledges, win it any time.
func TestPublishersWaitForNobodyElsesProgress(t *testing.T) {
	t.Parallel()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{Queue: 16, WriteTimeout: patience / 10}})
	const topic, own = "padme/v1/default/data/p/t/k/bob/w", "padme/v1/default/data/p/t/k/alice/w"
	lags := raw(t, b)
	lags.connect("lags", "alice", "", "")
	lags.subscribe(4, topic)
	busy, done := connect(t, at(b.URL()), as("alice", "alice")), make(chan struct{})
	busy.subscribe(own, 1)
	var flood sync.WaitGroup
	flood.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				busy.Publish(own, 1, false, "x").WaitTimeout(patience)
			}
		}
	})
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 40 {
		bob.publish(topic, "x", 1, false)
	}
	close(done)
	flood.Wait()
}

// No publisher waits for a socket that takes nothing: here it would be for an hour.
func TestNoPublisherWaitsForASocket(t *testing.T) {
	server, client := certificates(t)
	for name, conf := range map[string]*tls.Config{"tcp": nil, "tls": server} {
		t.Run(name, func(t *testing.T) {
			b := start(t, broker.Config{TCP: "127.0.0.1:0", TLS: conf, Limits: broker.Limits{WriteTimeout: time.Hour}})
			stalled := raw(t, b)
			if conf != nil {
				stalled.Conn = tls.Client(stalled.Conn, &tls.Config{RootCAs: client.RootCAs, ServerName: "127.0.0.1"})
			}
			stalled.connect("stalled", "", "", "")
			stalled.send(packet(0x82, []byte{0, 1}, text("big"), []byte{0}, text("small"), []byte{1}))
			stalled.receive()
			pub := connect(t, inProcess(b))
			for range 200 { // more than the kernel buffers
				pub.publish("big", strings.Repeat("x", 100_000), 1, false)
			}
			for range 100 {
				pub.publish("small", "x", 1, false)
			}
		})
	}
}

// No publisher waits for an observer, whatever that has subscribed to, which is cut off when
// its queue is full: the broker would wait an hour here.
func TestStalledObserversDelayNobody(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{WriteTimeout: time.Hour}})
	var observers []*rawConn
	for i := range 3 {
		o := raw(t, b)
		o.connect(fmt.Sprint("o", i), "watch", "", "")
		if codes := o.subscribe(4, "#"); !bytes.Equal(codes, []byte{0}) {
			t.Fatalf("granted QoS %v, want 0", codes)
		}
		observers = append(observers, o)
	}
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	bob.subscribe("padme/v1/default/data/#", 1)
	alice := connect(t, at(b.URL()), as("alice", "alice"))
	big := strings.Repeat("x", 100_000)
	for range 200 { // more than the kernel buffers
		alice.publish("padme/v1/default/data/p/t/k/alice/w", big, 1, false)
	}
	bob.receive(200)
	for range 9_000 { // more than mochi keeps for one connection
		alice.publish("padme/v1/default/data/p/t/k/alice/w", "x", 1, false)
	}
	bob.receive(9_200)
	for _, o := range observers {
		o.gone()
	}
}

// A client which reads but never acknowledges fills its queue.
func TestSilentSubscriberIsCutOff(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Queue: 100, WriteTimeout: 300 * time.Millisecond}})
	c := raw(t, b)
	c.connect("silent", "", "", "")
	c.send(packet(0x82, []byte{0, 1}, text("t"), []byte{1}))
	c.receive() // SUBACK: it gets all that is published from here on
	pub := connect(t, inProcess(b))
	published := make(chan struct{})
	go func() {
		defer close(published)
		for range 200 {
			pub.publish("t", "x", 1, false)
		}
	}()
	c.gone()
	<-published
}

// What a user does not acknowledge is bounded by its bytes, too: a connection that holds more
// of them than its part is cut off, one of the same user that acknowledges gets everything.
func TestUnacknowledgedBytesAreBounded(t *testing.T) {
	const topic = "padme/v1/default/presence/bob"
	registry := prometheus.NewRegistry()
	limits := broker.Limits{UserQueue: 1_000_000, WriteTimeout: 3 * time.Second} // 33 of these messages
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: limits})
	silent := raw(t, b)
	silent.connect("silent", "alice", "", "")
	silent.subscribe(4, topic)
	ended := make(chan struct{})
	go func() { // it reads, and acknowledges nothing
		defer close(ended)
		_, _ = io.Copy(io.Discard, silent)
	}()
	acknowledges := connect(t, at(b.URL()), as("alice", "alice"))
	acknowledges.subscribe(topic, 1)
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 50 { // after the 33rd the user has used its patience up: the other must not leave as many
		bob.publish(topic, strings.Repeat("x", 30_000), 1, false)
	}
	<-ended
	acknowledges.receive(50)
	wantLimited(t, registry, map[string]float64{"max-user-queue": 1, "write-timeout": 1})
	for range 15 { // nothing of it counts any more
		bob.publish(topic, strings.Repeat("x", 30_000), 1, false)
	}
	acknowledges.receive(65)
}
