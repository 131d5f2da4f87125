package pubsub

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
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
			if d := time.Since(began); d >= connection.ConnectTimeout { // it would have given up without noticing
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
