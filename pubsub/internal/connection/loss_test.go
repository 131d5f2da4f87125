package connection

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// The MQTT client stops taking messages when the connection is lost. A publisher that is
// handing it one, since the broker takes them slowly, must not wait for its write timeout.
// The client chooses at random between the message and the loss, so there are 20 tries.
func TestALossHoldsUpNoPublisher(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		for range 20 {
			client, server := net.Pipe()
			go func() { // it reads no more than the CONNECT
				_, _ = server.Read(make([]byte, 4096))
				_, _ = server.Write([]byte{0x20, 2, 0, 0})
			}()
			k, err := Connect(t.Context(), Config{
				ClientID: "a", KeepAlive: 5 * time.Second,
				Open:    func(context.Context) (net.Conn, error) { return client, nil },
				Receive: func(string, []byte, bool) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			var publisher sync.WaitGroup
			publisher.Go(func() {
				for !k.Gone() {
					if r := k.Publish(&Packet{Topic: "t", Payload: []byte("x"), QoS: 1}); r.done() {
						return
					}
				}
			})
			synctest.Wait() // one is being written, and the others wait for it
			lost := time.Now()
			server.Close()
			publisher.Wait()
			if late := time.Since(lost); late > 0 {
				t.Errorf("the publisher waits for %v after the loss", late)
			}
			k.Close(0)
		}
	})
}

func TestStreamBoundsStalledWrites(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	s := newStream(client, 50*time.Millisecond)
	defer s.Close()
	if err := s.post([]byte("x"), nil); err == nil {
		t.Error("a write that nobody reads succeeded")
	}
}
