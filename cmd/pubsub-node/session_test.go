package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"padme/pubsub"
)

// A broker that accepts connections and is too busy to answer one in time is asked again
// within --timeout; what answers something else, or is not there, is not.
func TestBusyBrokerIsAskedAgain(t *testing.T) {
	silent := fmt.Errorf("%w: no handshake: %w", pubsub.ErrUnreachable, context.DeadlineExceeded)
	for _, test := range []struct {
		name  string
		err   error
		again bool
	}{
		{"busy", silent, true},
		{"no broker", fmt.Errorf("%w: no handshake: %w", pubsub.ErrUnreachable, errors.New("what is this")), false},
		{"not there", fmt.Errorf("%w: %w", pubsub.ErrUnreachable, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), false},
	} {
		s := &session{broker: "mqtt://127.0.0.1", id: "x", domain: "d", prefix: "p", timeout: time.Minute}
		attempts := 0
		got, err := connect(t.Context(), s, func(context.Context, string, string, ...pubsub.Option) (string, error) {
			if attempts++; attempts < 3 {
				return "", test.err
			}
			return "in", nil
		})
		if again := got == "in" && err == nil && attempts == 3; again != test.again {
			t.Errorf("%s: %q, %v after %d attempts", test.name, got, err, attempts)
		}
	}
}

// A command that would wait in line for as long as it takes waits longer for the broker, and one
// that has a time waits for that time.
func TestLockWaitsForABusyBroker(t *testing.T) {
	const usual = 10 * time.Second
	for _, test := range []struct {
		flags lockFlags
		want  time.Duration
	}{
		{lockFlags{}, busyBroker},
		{lockFlags{noWait: true}, usual},
		{lockFlags{wait: time.Second}, time.Second},
		{lockFlags{wait: time.Hour}, time.Hour},
		{lockFlags{wait: time.Hour, deadline: time.Minute}, time.Minute},
		{lockFlags{deadline: 30 * time.Second}, 30 * time.Second},
	} {
		s := &session{timeout: usual}
		if test.flags.patience(s); s.timeout != test.want {
			t.Errorf("%+v: %v, want %v", test.flags, s.timeout, test.want)
		}
		s = &session{timeout: usual, timeoutGiven: true}
		if test.flags.patience(s); s.timeout != min(usual, test.want) {
			t.Errorf("%+v with a --timeout of %v: %v", test.flags, usual, s.timeout)
		}
	}
}

// A broker that goes away right after it has let a command in is not waited for without end:
// the command ends within its --timeout, and says why.
func TestABrokerThatGoesAwayAtOnceIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 1<<16))    // CONNECT
		_, _ = c.Write([]byte{0x20, 2, 0, 0}) // CONNACK
		_ = listener.Close()                  // and is gone
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1))
		_ = c.Close()
	}()
	ended := make(chan int, 1)
	go func() {
		ended <- execute([]string{"--broker", "mqtt://" + listener.Addr().String(), "--timeout", "500ms", "lock", "crane", "-w", "1", "--", "true"})
	}()
	select {
	case code := <-ended:
		if code != 69 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits")
	}
}
