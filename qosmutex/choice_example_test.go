package qosmutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"padme/qosmutex"
)

// Models are written as four words or as their initials.
func ExampleParseModels() {
	for _, text := range []string{"fair-replace-use-use", "AFFF", "fair"} {
		models, err := qosmutex.ParseModels(text)
		fmt.Println(models, err == nil)
	}
	// Output:
	// fair-replace-use-use true
	// aging-forward-forward-forward true
	// level-forward-forward-forward false
}

// A preset suits most; what differs is changed.
func ExampleLAN() {
	timing := qosmutex.LAN()
	timing.JoinWait = 500 * time.Millisecond // some participants are far away
	timing = timing.WithTTL(10 * time.Second)
	fmt.Println(timing.TTL, timing.Heartbeat, timing.Grace().Round(time.Millisecond))
	// Output: 10s 700ms 10.202s
}

// WAN is for participants that are far from the broker: a death is noticed later.
func ExampleWAN() {
	fmt.Println(qosmutex.WAN().TTL)
	// Output: 15s
}

// Local is for one machine: a death is noticed sooner.
func ExampleLocal() {
	fmt.Println(qosmutex.Local().TTL)
	// Output: 1s
}

// Who only watches is no member: it needs a participant and no lock topic. The states
// that the broker retains come first.
func ExampleWatchStates() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	robot, screen := exampleJoin(ctx, b, "robot"), exampleJoin(ctx, b, "screen")
	defer robot.Close(ctx)
	defer screen.Close(ctx)
	topic, err := qosmutex.Open(ctx, robot, "cranes", qosmutex.Create(), qosmutex.WithResources("crane"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)
	hold, err := topic.Lock(ctx, "crane")
	if err != nil {
		log.Fatal(err)
	}
	for state, err := range qosmutex.WatchStates(ctx, screen, "cranes") {
		if err != nil {
			log.Fatal(err)
		}
		if state.Holder != "" {
			fmt.Println(state.Holder, "has", state.Resource)
			break
		}
	}
	fmt.Println(hold.Unlock())
	// Output:
	// robot has crane
	// <nil>
}

// Events come from now on: here of every lock topic at the broker.
func ExampleWatchEvents() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	robot, screen := exampleJoin(ctx, b, "robot"), exampleJoin(ctx, b, "screen")
	defer robot.Close(ctx)
	defer screen.Close(ctx)
	topic, err := qosmutex.Open(ctx, robot, "cranes", qosmutex.Create(), qosmutex.WithResources("crane"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)

	working, stop := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() { // works until its work has been seen
		for {
			err := topic.Do(working, "crane", func(context.Context, *qosmutex.Hold) error { return nil })
			if errors.Is(err, qosmutex.ErrCanceled) || working.Err() != nil {
				return
			}
		}
	})
	for event, err := range qosmutex.WatchEvents(ctx, screen, "") {
		if err != nil && !errors.Is(err, qosmutex.ErrMissed) {
			log.Fatal(err)
		}
		if err == nil && event.Event == qosmutex.EventGranted {
			fmt.Println(event.Participant, event.Event, event.Resource, "of", event.Topic)
			break
		}
	}
	stop()
	worker.Wait()
	// Output: robot granted crane of cranes
}
