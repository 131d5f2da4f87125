package qosmutex_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"padme/qosmutex"
)

// A request that waits becomes more important, while another one stays where it is.
func ExampleTopic_Ask() {
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

	hold, err := topic.Lock(ctx, "crane")
	if err != nil {
		log.Fatal(err)
	}
	first, err := topic.Ask("crane", qosmutex.WithPriority(5))
	if err != nil {
		log.Fatal(err)
	}
	second, err := topic.Ask("crane", qosmutex.WithPriority(7))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(second.SetPriority(1), hold.Unlock())
	for _, r := range []*qosmutex.Request{second, first} {
		h, err := r.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("inside with priority", h.Priority(), h.Unlock())
	}
	// Output:
	// <nil> <nil>
	// inside with priority 1 <nil>
	// inside with priority 5 <nil>
}

// Settings change while the lock topic is in use.
func ExampleTopic_Configure() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	p := exampleJoin(ctx, b, "robot")
	defer p.Close(ctx)
	topic, err := qosmutex.Open(ctx, p, "cranes", qosmutex.Create(), qosmutex.WithResources("east"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)

	err = topic.Configure(ctx, qosmutex.WithResources("east", "west"), qosmutex.WithModels(qosmutex.Models{Priority: qosmutex.Fair}))
	fmt.Println(topic.Resources(), topic.Models(), err)
	// Output: [east west] fair-forward-forward-forward <nil>
}
