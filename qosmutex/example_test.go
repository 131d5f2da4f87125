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
	"padme/qosmutex/register/local"
)

// exampleBroker is a broker in this process, as the examples need one.
func exampleBroker(ctx context.Context) *broker.Broker {
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func exampleJoin(ctx context.Context, b *broker.Broker, id string) *pubsub.Participant {
	p, err := pubsub.Join(ctx, b.URL(), id)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// A robot creates a lock topic with two frequencies; another one joins it.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	first, second := exampleJoin(ctx, b, "first"), exampleJoin(ctx, b, "second")
	defer first.Close(ctx)
	defer second.Close(ctx)

	creator, err := qosmutex.Open(ctx, first, "frequencies",
		qosmutex.Create(),
		qosmutex.WithResources("146.52", "446.00"),
		qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer creator.Close(ctx)

	joiner, err := qosmutex.Open(ctx, second, "frequencies", qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer joiner.Close(ctx)
	fmt.Println(joiner.Resources(), joiner.Models(), joiner.Status().Root)

	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // for how long a root may be missing
	defer cancel()
	_, err = qosmutex.Open(short, second, "cranes", qosmutex.WithTiming(qosmutex.Local()))
	fmt.Println(errors.Is(err, qosmutex.ErrNoRoot))
	// Output:
	// [146.52 446.00] level-forward-forward-forward first
	// true
}

// Lock waits for a resource. Whoever writes to what it protects hands over the
// fence, so that a writer that lost its hold without noticing can be refused.
func ExampleTopic_Lock() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	p := exampleJoin(ctx, b, "robot")
	defer p.Close(ctx)
	topic, err := qosmutex.Open(ctx, p, "frequencies", qosmutex.Create(),
		qosmutex.WithResources("146.52", "446.00"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)

	first, err := topic.Lock(ctx, "146.52", qosmutex.WithPriority(3))
	if err != nil {
		log.Fatal(err)
	}
	second, err := topic.Lock(ctx, qosmutex.Any)
	if err != nil {
		log.Fatal(err)
	}
	_, err = topic.TryLock(ctx, "146.52")
	fmt.Println(first.Resource(), second.Resource(), errors.Is(err, qosmutex.ErrBusy))
	fence := first.Fence()
	fmt.Println(first.Unlock(), second.Unlock())

	again, err := topic.Lock(ctx, "146.52")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Fence() > fence, again.Check(), errors.Is(first.Check(), qosmutex.ErrReleased))
	fmt.Println(again.Unlock())
	// Output:
	// 146.52 446.00 true
	// <nil> <nil>
	// true <nil> true
	// <nil>
}

// Do runs a function inside and unlocks whatever happens.
func ExampleTopic_Do() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	p := exampleJoin(ctx, b, "robot")
	defer p.Close(ctx)
	topic, err := qosmutex.Open(ctx, p, "cranes", qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)

	lifted := 0 // protected by the lock
	var lifters sync.WaitGroup
	for range 10 {
		lifters.Go(func() {
			err := topic.Do(ctx, "crane 7", func(ctx context.Context, h *qosmutex.Hold) error {
				lifted++
				return h.Check() // or stop when ctx is canceled
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	lifters.Wait()
	fmt.Println(lifted)
	// Output: 10
}

// A broker's host creates lock topics on demand.
func ExampleNewServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(context.Background())
	host, err := pubsub.Join(ctx, "", "host", pubsub.WithDialer(b.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close(context.Background())
	server, err := qosmutex.NewServer(host, qosmutex.WithRegister(local.Memory()), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	serving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(serving); err != nil {
			log.Print(err)
		}
	})

	p := exampleJoin(ctx, b, "robot")
	topic, err := qosmutex.Open(ctx, p, "anything", qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic.Do(ctx, "any resource", func(context.Context, *qosmutex.Hold) error { return nil }))
	topic.Close(ctx)
	p.Close(ctx)
	stop()
	running.Wait()
	// Output: <nil>
}

// Under the Deadline model a request is promised its deadline or refused at once.
func ExampleWithDeadline() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	first, second := exampleJoin(ctx, b, "first"), exampleJoin(ctx, b, "second")
	defer first.Close(ctx)
	defer second.Close(ctx)
	creator, err := qosmutex.Open(ctx, first, "cranes", qosmutex.Create(), qosmutex.WithResources("crane"),
		qosmutex.WithModels(qosmutex.Models{Priority: qosmutex.Deadline}), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer creator.Close(ctx)
	joiner, err := qosmutex.Open(ctx, second, "cranes", qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer joiner.Close(ctx)

	hold, err := creator.Lock(ctx, "crane", qosmutex.WithHold(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	_, err = joiner.Lock(ctx, "crane", qosmutex.WithDeadline(time.Now().Add(time.Second)), qosmutex.WithHold(time.Second))
	fmt.Println(errors.Is(err, qosmutex.ErrDeadlineUnattainable)) // told at once, not after a second

	time.AfterFunc(100*time.Millisecond, func() { _ = hold.Unlock() })
	next, err := joiner.Lock(ctx, "crane", qosmutex.WithDeadline(time.Now().Add(10*time.Second)), qosmutex.WithHold(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("inside", next.Resource(), next.Unlock())
	// Output:
	// true
	// inside crane <nil>
}
