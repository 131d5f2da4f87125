package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/tests/bubble"
)

// Where gateways are there, a lock that has no root in time is not said to need another one.
func TestCreateSaysWhoIsBecomingTheRoot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		ctx, start := context.Background(), time.Now()
		clock := qosmutex.WithClock(func() time.Duration { return time.Since(start) })
		b, err := broker.Start(ctx, broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(ctx)
		join := func(id string, opts ...pubsub.Option) *pubsub.Participant {
			p, err := pubsub.Join(ctx, "", id, append(opts, pubsub.WithDialer(b.Dial))...)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		me := join("me")
		defer me.Close(ctx)
		create := func(name string, within time.Duration) error {
			ctx, cancel := context.WithTimeoutCause(ctx, within, &joinTimeout{"--timeout", within})
			defer cancel()
			topic, err := openMember(ctx, me, name, within, clock)
			if err == nil {
				_ = topic.Close(context.WithoutCancel(ctx))
			}
			return err
		}
		says := func(err error, want string) {
			t.Helper()
			if !strings.Contains(message(err), want) || exitCode(err) != exitUnavailable {
				t.Errorf("exit code %d, want %q: %s", exitCode(err), want, message(err))
			}
		}
		says(create("new", time.Second), "it has no root: start one with")

		old := join("old", servesLocks(true)) // its presence is left over: the gateway waits for it
		defer old.Close(ctx)
		says(create("new", time.Second), "none of those that serve locks, old: ")

		p := join("gw1", servesLocks(false))
		server, err := qosmutex.NewServer(p, clock)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- gateway.Serve(ctx, server) }()
		defer func() {
			_ = p.Close(ctx)
			<-ended
			server.Close()
		}()
		if err := create("first", time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(qosmutex.LAN().Grace()) // roles can be had
		says(create("new", 2*time.Second), "\"new\" is not ready: gw1 is becoming its root: this takes up to 5s, so give a longer --timeout")
		if err := create("new", time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// What a gateway says is wrong with the lock is told, also after it has said that it does not know the
// other question, which comes last.
func TestCreateTellsWhatAGatewaySays(t *testing.T) {
	c := &creators{serving: map[string]bool{"gw1": true}}
	say := func(answer string) { c.answered(pubsub.RawMessage{Payload: []byte(answer)}) }
	told := func() string { return c.explain(qosmutex.ErrNoRoot, "new").Error() }
	say(`{"op":"show","outcome":"denied","reason":"not_ready","detail":"voters v2, v3 are missing","gateway":"gw1"}`)
	say(`{"op":"query","id":"create","outcome":"lost","reason":"unknown","gateway":"gw1"}`)
	if got := told(); !strings.Contains(got, "voters v2, v3 are missing") {
		t.Error(got)
	}
	say(`{"op":"show","outcome":"shown","gateway":"gw1"}`)
	if got := told(); !strings.Contains(got, "gw1 is becoming its root") {
		t.Error(got)
	}
}
