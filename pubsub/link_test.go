package pubsub

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// A broker that breaks the protocol costs its participants the connection, and
// nothing else.
func TestABrokerThatBreaksTheProtocolIsLeft(t *testing.T) {
	for name, after := range map[string][]byte{
		"a packet of 256 MB":             {0x30, 0xff, 0xff, 0xff, 0x7f},
		"a length without end":           {0x30, 0xff, 0xff, 0xff, 0xff, 0xff},
		"codes for topics not asked for": {0x90, 6, 0, 1, 1, 1, 1, 1},
		"an unknown packet":              {0x00, 0},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Join(testContext(t), "", "a", WithDialer(brokenBroker(t, after)))
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("Join: %v", err)
			}
			if d := time.Since(began); d >= connectTimeout { // it would have given up without noticing
				t.Errorf("noticed after %v", d)
			}
		})
	}
}

// brokenBroker accepts the CONNECT, reads one packet, answers it with after and
// hangs.
func brokenBroker(t *testing.T, after []byte) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b := make([]byte, 4096)
			_, _ = server.Read(b)
			_, _ = server.Write([]byte{0x20, 2, 0, 0})
			_, _ = server.Read(b)
			_, _ = server.Write(after)
			_, _ = io.Copy(io.Discard, server)
		}()
		t.Cleanup(func() { server.Close(); <-done })
		return client, nil
	}
}

// A broker that takes connections and acknowledges nothing, as one whose disk is full, is
// not one that is missing.
func TestABrokerThatAcknowledgesNothing(t *testing.T) {
	virtually(t, func(t *testing.T, _ *world) {
		why := errors.New("long enough")
		ctx, cancel := context.WithTimeoutCause(testContext(t), time.Second, why)
		defer cancel()
		_, err := Join(ctx, "", "a", WithDialer(brokenBroker(t, nil)))
		if !errors.Is(err, ErrUnreachable) || !errors.Is(err, why) || !strings.Contains(err.Error(), "does not acknowledge") {
			t.Errorf("Join: %v", err)
		}
	})
}

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
			k, err := connectLink(t.Context(), linkConfig{
				clientID: "a", keepAlive: 5 * time.Second,
				open:    func(context.Context) (net.Conn, error) { return client, nil },
				receive: func(string, []byte, bool) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			var publisher sync.WaitGroup
			publisher.Go(func() {
				for !k.gone() {
					if r := k.publish("t", []byte("x"), 1, false); r.done() {
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
			k.close(0)
		}
	})
}

func TestRefusalsOfTheBrokerSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		code byte
		opts []Option
		want error
		says string
	}{
		{5, nil, ErrRefused, "anonymous"},
		{4, []Option{WithCredentials("u", "p")}, ErrRefused, `user "u"`},
		{2, nil, ErrRefused, "client id"},
		{3, nil, ErrUnreachable, "not available"},
	} {
		dial := func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				b := make([]byte, 4096)
				_, _ = server.Read(b)
				_, _ = server.Write([]byte{0x20, 2, 0, c.code})
				server.Close()
			}()
			return client, nil
		}
		_, err := Join(testContext(t), "", "a", append(c.opts, WithDialer(dial))...)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("code %d: %v", c.code, err)
		}
	}
}

func TestStreamBoundsStalledWrites(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	s := newStream(client, 50*time.Millisecond)
	defer s.Close()
	if err := s.write([]byte("x")); err == nil {
		t.Error("a write that nobody reads succeeded")
	}
}
