package broker_test

import (
	"context"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/bubble"
)

// Broker and clients live in a bubble of virtual time: hours pass in a moment,
// and retained messages outlast the day after which mochi forgets them.
func TestVirtualTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := dial(t, inProcess(b))
		if err != nil {
			t.Fatal(err)
		}
		pub, err := dial(t, inProcess(b))
		if err != nil {
			t.Fatal(err)
		}
		sub.subscribe("a", 1)
		pub.publish("kept/too", "for long", 1, true)
		mortal := raw(t, b)
		mortal.connect("mortal", "", "kept", "will")
		mortal.Close()
		const n = 25 // hours
		for range n {
			pub.publish("a", "x", 1, false)
			time.Sleep(time.Hour)
		}
		if got := sub.receive(n); len(got) != n {
			t.Errorf("%d messages", len(got))
		}
		sub.subscribe("kept", 1)
		sub.subscribe("kept/too", 1)
		if got := sub.receive(n + 2); got[n] != "will" || got[n+1] != "for long" {
			t.Errorf("received %q", got[n:])
		}
		// A client that falls silent is gone after one and a half keepalives.
		c := raw(t, b)
		c.connect("silent", "", "", "")
		begin := time.Now()
		_ = c.SetReadDeadline(time.Time{})
		if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(begin) != 90*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		sub.Disconnect(50)
		pub.Disconnect(50)
		stop(t, b)
	})
}
