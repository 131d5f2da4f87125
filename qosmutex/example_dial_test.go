package qosmutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/jsonlock"
)

// exampleServer serves clients, as `pubsub-node broker` and `pubsub-node serve` do.
func exampleServer(ctx context.Context, b *broker.Broker) (stop func()) {
	p, err := pubsub.Join(ctx, b.URL(), "server", pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}))
	if err != nil {
		log.Fatal(err)
	}
	server, err := qosmutex.NewServer(p, qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	serving, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := gateway.Serve(serving, server); err != nil {
			log.Print(err)
		}
	})
	return func() {
		cancel()
		running.Wait()
		server.Close()
		_ = p.Close(context.Background())
	}
}

// A short program takes a lock through a server. The function that uses the lock would
// take that of a member, too.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	defer exampleServer(ctx, b)()

	p, err := pubsub.Join(ctx, b.URL(), "script", pubsub.Unannounced())
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)
	crane, err := qosmutex.Dial(ctx, p, "crane")
	if err != nil {
		log.Fatal(err)
	}
	defer crane.Close(ctx)
	lift := func(crane qosmutex.Locker) error {
		return crane.Do(ctx, "hook", func(_ context.Context, h *qosmutex.Hold) error {
			fmt.Println("inside", h.Topic(), h.Resource(), h.Fence() > 0)
			return nil
		}, qosmutex.WithPriority(5))
	}
	fmt.Println(lift(crane))
	// Output:
	// inside crane hook true
	// <nil>
}

// A client that is killed leaves its lock to others as soon as nobody can believe that it
// goes on; without a last will that takes some seconds longer.
func ExampleLastWill() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	defer exampleServer(ctx, b)()

	will, session := qosmutex.LastWill("script")
	p, err := pubsub.Join(ctx, b.URL(), "script", pubsub.Unannounced(), will)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)
	crane, err := qosmutex.Dial(ctx, p, "crane", session)
	if err != nil {
		log.Fatal(err)
	}
	defer crane.Close(ctx)
	hold, err := crane.TryLock(ctx, "hook")
	if err != nil {
		log.Fatal(err)
	}
	_, err = crane.TryLock(ctx, "hook")
	fmt.Println(errors.Is(err, qosmutex.ErrBusy), hold.Unlock())
	// Output:
	// true <nil>
}
