package broker_test

import (
	"context"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/bubble"
)

// A subscriber with a full queue that acknowledges one message every four seconds does not
// hold its publishers up for longer than one that acknowledges nothing. One that goes on
// steadily may be as slow as it is.
func TestPatienceIsNotRenewedByEachAcknowledgement(t *testing.T) {
	for name, tc := range map[string]struct {
		every  time.Duration
		within time.Duration
		stays  bool
	}{
		"one in four seconds": {4 * time.Second, 6 * time.Second, false},
		"a hundred a second":  {10 * time.Millisecond, 6 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				b, err := broker.Start(context.Background(), broker.Config{Limits: broker.Limits{Queue: 16, WriteTimeout: 5 * time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				slow := raw(t, b)
				slow.connect("slow", "", "", "")
				slow.subscribe(4, "t")
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					slow.acknowledge(tc.every)
				}()
				pub, err := dial(t, inProcess(b))
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				for range 300 {
					pub.publish("t", "x", 1, false)
				}
				if d := time.Since(begin); d > tc.within {
					t.Errorf("publishers waited for %v", d)
				}
				slow.SetReadDeadline(time.Now().Add(time.Minute))
				select {
				case <-ended:
					if tc.stays {
						t.Error("it was cut off")
					}
				case <-time.After(30 * time.Second):
					if !tc.stays {
						t.Error("it was not cut off")
					}
				}
				_ = slow.Close()
				<-ended
				pub.Disconnect(50)
				stop(t, b)
			})
		})
	}
}

// acknowledge acknowledges what comes, one message in a while, until the connection ends.
func (c *rawConn) acknowledge(every time.Duration) {
	for {
		head := make([]byte, 8) // a message of one byte to a topic of one
		for n := 0; n < len(head); {
			m, err := c.Read(head[n:])
			if err != nil {
				return
			}
			n += m
		}
		time.Sleep(every)
		if _, err := c.Write(packet(0x40, head[5:7])); err != nil {
			return
		}
	}
}
