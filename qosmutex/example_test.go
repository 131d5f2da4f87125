package qosmutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
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

	_, err = qosmutex.Open(ctx, second, "cranes", qosmutex.WithTiming(qosmutex.Local()))
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
	fmt.Println(first.Unlock(ctx), second.Unlock(ctx))

	again, err := topic.Lock(ctx, "146.52")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Fence() > fence, again.Check(), errors.Is(first.Check(), qosmutex.ErrReleased))
	fmt.Println(again.Unlock(ctx))
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
				return h.Check() // or stop when ctx is cancelled
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

// Everybody at the broker can watch who waits for what and who is inside.
func ExampleTopic_Watch() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	p := exampleJoin(ctx, b, "robot")
	defer p.Close(ctx)
	topic, err := qosmutex.Open(ctx, p, "cranes", qosmutex.Create(), qosmutex.WithResources("crane"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)

	working, stop := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() {
		for topic.Do(working, "crane", func(context.Context, *qosmutex.Hold) error { return nil }) == nil {
			time.Sleep(20 * time.Millisecond)
		}
	})
	request := ""
	for e, err := range topic.Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if e.Event == qosmutex.EventRequested && request == "" {
			request = e.Request
		}
		if e.Request == "" || e.Request != request {
			continue
		}
		fmt.Println(e.Participant, e.Event, e.Resource)
		if e.Event == qosmutex.EventReleased {
			break
		}
	}
	stop()
	worker.Wait()
	for s, err := range topic.States(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if s.Holder == "" {
			fmt.Println(s.Resource, "is free")
			break
		}
	}
	// Output:
	// robot requested crane
	// robot granted crane
	// robot released crane
	// crane is free
}

// A broker's host serves lock topics on demand.
func ExampleServe() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(context.Background())
	host, err := pubsub.Join(ctx, "", "host", pubsub.WithDialer(b.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close(context.Background())
	serving, stop := context.WithCancel(ctx)
	var server sync.WaitGroup
	server.Go(func() {
		if err := qosmutex.Serve(serving, host, qosmutex.WithTiming(qosmutex.Local())); err != nil {
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
	server.Wait()
	// Output: <nil>
}

// Three participants run Ricart and Agrawala's algorithm instead of PADME.
func ExampleWithAlgorithm() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	algorithm, err := qosmutex.AlgorithmNamed("ricart-agrawala")
	if err != nil {
		log.Fatal(err)
	}
	members := []string{"ann", "bob", "cid"}
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for _, id := range members {
		p := exampleJoin(ctx, b, id)
		defer p.Close(ctx)
		topic, err := qosmutex.Open(ctx, p, "licence", qosmutex.WithAlgorithm(algorithm), qosmutex.WithMembers(members...),
			qosmutex.WithResources("seat"), qosmutex.WithTiming(qosmutex.Local()))
		if err != nil {
			log.Fatal(err)
		}
		defer topic.Close(ctx)
		all.Go(func() {
			for range 3 {
				err := topic.Do(ctx, "seat", func(context.Context, *qosmutex.Hold) error {
					most.Store(max(most.Load(), inside.Add(1)))
					inside.Add(-1)
					return nil
				})
				if err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%s messages an entry, at most %d inside\n", algorithm.Messages, most.Load())
	// Output:
	// 2(N-1) messages an entry, at most 1 inside
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

	time.AfterFunc(100*time.Millisecond, func() { _ = hold.Unlock(ctx) })
	next, err := joiner.Lock(ctx, "crane", qosmutex.WithDeadline(time.Now().Add(10*time.Second)), qosmutex.WithHold(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("inside", next.Resource(), next.Unlock(ctx))
	// Output:
	// true
	// inside crane <nil>
}
