package broker_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"

	"github.com/prometheus/client_golang/prometheus"
)

// What a user has not read of messages at QoS 0 is bounded: a connection that leaves more than its
// part of them loses those that come, one of the same user that reads gets everything.
func TestUnreadBytesAreBounded(t *testing.T) {
	const topic = "padme/v1/default/presence/bob"
	for name, five := range map[string]bool{"MQTT 3.1.1": false, "MQTT 5": true} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: broker.Limits{UserQueue: 1_000_000, WriteTimeout: time.Hour}})
			unread := raw(t, b)
			if five {
				unread.send(packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, 0}, text("five"), text("alice"), text("alice")))
				unread.receive()
				unread.send(packet(0x82, []byte{0, 1, 0}, text(topic), []byte{0}))
			} else {
				unread.connect("unread", "alice", "", "")
				unread.send(packet(0x82, []byte{0, 1}, text(topic), []byte{0}))
			}
			unread.receive()
			reads := connect(t, at(b.URL()), as("alice", "alice"))
			reads.subscribe(topic, 0)
			bob := connect(t, at(b.URL()), as("bob", "bob"))
			n := 0
			dropped := func() bool { return gather(t, registry)["padme_broker_messages_dropped_total"] > 0 }
			for ; n < 500 && !dropped(); n++ { // of 50 MB, more than a socket takes
				bob.publish(topic, strings.Repeat("x", 100_000), 0, false)
				reads.receive(n + 1)
			}
			if n == 500 {
				t.Fatal("all of them wait")
			}
			wantLimited(t, registry, map[string]float64{"max-user-queue": 1})
			_ = unread.Close()
		})
	}
}

// Whoever observes, and is granted QoS 0 for what was published at QoS 1, loses its connection
// rather than one of them.
func TestAnObserverThatLosesAMessageIsTold(t *testing.T) {
	const topic = "padme/v1/default/presence/bob"
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{UserQueue: 1_000_000, WriteTimeout: time.Hour}})
	unread := raw(t, b)
	unread.connect("unread", "watch", "", "")
	unread.send(packet(0x82, []byte{0, 1}, text(topic), []byte{1}))
	unread.receive()
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	for range 500 {
		bob.publish(topic, strings.Repeat("x", 100_000), 1, false)
	}
	received := 0
	_ = unread.SetReadDeadline(time.Now().Add(patience))
	for buffer := make([]byte, 1<<16); ; {
		n, err := unread.Read(buffer)
		received += n
		if err == nil {
			continue
		}
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("the connection is still open")
		}
		break
	}
	if received >= 500*100_000 {
		t.Error("all of them have waited")
	}
}

// Without users, each connection is bounded as a user is, those in the process, too.
func TestUnacknowledgedBytesOfNobodyAreBounded(t *testing.T) {
	for name, cfg := range map[string]broker.Config{"tcp": {TCP: "127.0.0.1:0"}, "in process": {}} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			cfg.Metrics, cfg.Limits = registry, broker.Limits{UserQueue: 1_000_000, WriteTimeout: 300 * time.Millisecond}
			b := start(t, cfg)
			silent := raw(t, b)
			silent.connect("silent", "", "", "")
			silent.subscribe(4, "a")
			ended := make(chan struct{})
			go func() { // it reads, and acknowledges nothing
				defer close(ended)
				_, _ = io.Copy(io.Discard, silent)
			}()
			publisher := connect(t, inProcess(b))
			for range 100 {
				publisher.publish("a", strings.Repeat("x", 100_000), 1, false)
			}
			wantLimited(t, registry, map[string]float64{"max-user-queue": 1})
			<-ended
		})
	}
}

// Whoever reads everything, slowly and with all that MQTT 5 lets it ask for, loses nothing
// however much it has read.
func TestWhoReadsLosesNothing(t *testing.T) {
	const topic = "a/topic/that/is/replaced/by/an/alias/from/the/second/message/on"
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry, Limits: broker.Limits{UserQueue: 100_000}})
	c := raw(t, b)
	properties := []byte{6, 0x21, 0, 1, 0x22, 0, 10} // one message may be unacknowledged; ten topics may have aliases
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60}, properties, text("slow")))
	c.receive()
	c.send(packet(0x82, []byte{0, 1, 0}, text(topic), []byte{1}))
	c.receive()
	publisher := connect(t, at(b.URL()))
	read := func(qos byte) {
		first, body := c.receive()
		if first != 0x30|qos<<1 {
			t.Fatalf("%#x instead of a message at QoS %d", first, qos)
		}
		if qos == 1 {
			after := 2 + int(body[0])<<8 + int(body[1])
			c.send(packet(0x40, body[after:after+2]))
		}
	}
	for range 300 {
		for range 3 { // of which two wait for the acknowledgement of the first
			publisher.publish(topic, "x", 1, false)
		}
		for range 3 {
			read(1)
		}
	}
	for range 3000 {
		publisher.publish(topic, "x", 0, false)
		read(0)
	}
	if n := gather(t, registry)["padme_broker_messages_dropped_total"]; n > 0 {
		t.Errorf("%v were dropped", n)
	}
}

// What is retained and yet to be sent to the connections of a user is bounded: one more is closed
// while they hardly read, and sent everything once they have.
func TestReplaysOfAUserAreBounded(t *testing.T) {
	const n = 3000
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: broker.Limits{Retained: 1 << 30, UserQueue: n * 200, WriteTimeout: 2 * time.Second}})
	alice := connect(t, inProcess(b), as("alice", "alice"))
	for i := range n {
		alice.Publish(fmt.Sprintf("padme/v1/default/data/p/t/k%d/alice/w", i), 0, true, strings.Repeat("x", 10_000)) // more than sockets take
	}
	alice.publish("padme/v1/default/presence/alice", "x", 1, true)
	ask := func(id string) *rawConn {
		c := raw(t, b)
		c.connect(id, "watch", "", "")
		c.send(packet(0x82, []byte{0, 1}, text("padme/v1/default/data/#"), []byte{0}))
		return c
	}
	stop := make(chan struct{})
	var slow sync.WaitGroup
	for _, id := range []string{"one", "two"} { // for which there is room
		c := ask(id)
		c.receive()
		_ = c.SetReadDeadline(time.Time{})
		slow.Go(func() {
			defer func() { _ = c.Close() }()
			buf := make([]byte, 100_000)
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-tick.C:
					if _, err := io.ReadFull(c, buf); err != nil {
						t.Error("one that hardly reads:", err)
						return
					}
				case <-stop:
					return
				}
			}
		})
	}
	ask("three").gone()
	wantLimited(t, registry, map[string]float64{"max-user-queue": 1})
	bob := connect(t, at(b.URL()), as("bob", "bob"))
	bob.subscribe("padme/v1/default/data/#", 0)
	bob.receive(n)
	close(stop)
	slow.Wait()
	again := connect(t, at(b.URL()), as("watch", "watch"))
	again.subscribe("padme/v1/default/data/#", 0)
	again.receive(n)
}
