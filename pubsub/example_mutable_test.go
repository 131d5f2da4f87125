package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"padme/pubsub"
)

// A display shows the floor that it is on: it moves from one partition to another.
func ExampleReader_SetQoS() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "display")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	topic, err := pubsub.NewTopic[string](p, "signs")
	if err != nil {
		log.Fatal(err)
	}
	qos := pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.TransientLocal}
	for _, floor := range []string{"ground", "first"} {
		qos.Partition = []string{floor}
		w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
		if err != nil {
			log.Fatal(err)
		}
		_ = w.Write(ctx, "welcome to the "+floor+" floor")
	}

	qos.Partition = []string{"ground"}
	r, err := pubsub.NewReader(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	show := func() {
		for s, err := range r.Samples(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			if s.Info.Valid {
				fmt.Println(s.Data)
				return
			}
		}
	}
	show()
	qos = r.QoS()
	qos.Partition = []string{"first"}
	if err := r.SetQoS(ctx, qos); err != nil {
		log.Fatal(err)
	}
	show() // what was written before it came
	// Output:
	// welcome to the ground floor
	// welcome to the first floor
}

// A standby takes over: readers of exclusive writers listen to the strongest.
func ExampleWriter_SetQoS() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "standby")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	topic, err := pubsub.NewTopic[string](p, "orders")
	if err != nil {
		log.Fatal(err)
	}
	w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(pubsub.QoS{Exclusive: true, Strength: 1}))
	if err != nil {
		log.Fatal(err)
	}
	qos := w.QoS()
	qos.Strength = 10
	if err := w.SetQoS(qos); err != nil {
		log.Fatal(err)
	}
	qos.Reliability = pubsub.Reliable
	fmt.Println(w.SetQoS(qos))
	// Output:
	// pubsub: policies of the writer of topic "orders": pubsub: invalid argument: RELIABILITY cannot be changed: close it and make another one
}
