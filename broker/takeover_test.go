package broker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/tests/poll"
)

// A session that is taken over again and again while others publish to it loses
// nothing.
func TestTakeoverLosesNothing(t *testing.T) {
	const publishers, each = 3, 1500
	b := start(t, broker.Config{DataDir: t.TempDir()})
	var mu sync.Mutex
	seen := map[string]bool{}
	reconnect := func() *client {
		return connect(t, inProcess(b), session("roamer"), func(o *paho.ClientOptions) {
			o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
				mu.Lock()
				seen[string(m.Payload())] = true
				mu.Unlock()
			})
		})
	}
	reconnect().subscribe("q/#", 1)
	var wg sync.WaitGroup
	for p := range publishers {
		pub := connect(t, inProcess(b))
		wg.Go(func() {
			for i := range each {
				pub.publish(fmt.Sprint("q/", p), fmt.Sprint(p, "-", i), 1, false)
				time.Sleep(200 * time.Microsecond) // or the backlog outgrows what one session has time for
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		reconnect()
		select {
		case <-done:
			running = false
		case <-time.After(3 * time.Millisecond):
		}
	}
	reconnect()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
	poll.UntilOr(t, func() bool { return count() == publishers*each },
		func() string { return fmt.Sprintf("%d of %d messages", count(), publishers*each) })
}

// Of two connections at the same time mochi gives the session to one and then
// lets the other replace it, empty.
func TestTakeoversAtTheSameTime(t *testing.T) {
	b := start(t, broker.Config{})
	pub := connect(t, inProcess(b))
	const n = 500
	for round := range 20 {
		id := fmt.Sprint("s", round)
		sleeper := connect(t, inProcess(b), session(id))
		sleeper.subscribe("q", 1)
		sleeper.Disconnect(50)
		for i := range n {
			pub.Publish("q", 1, false, fmt.Sprint(i))
		}
		pub.publish("q", "end", 1, false)
		var wg sync.WaitGroup
		for range 4 { // they acknowledge nothing, so everything must stay
			c := raw(t, b)
			wg.Go(func() {
				c.send(packet(0x10, text("MQTT"), []byte{4, 0, 0, 60}, text(id)))
				_, _ = c.Read(make([]byte, 4))
			})
		}
		wg.Wait()
		last := connect(t, inProcess(b), session(id))
		if got := last.receive(n + 1); got[n] != "end" {
			t.Fatalf("round %d: %q is the last", round, got[n])
		}
		unsubscribe := last.Unsubscribe("q")
		unsubscribe.WaitTimeout(patience)
	}
}
