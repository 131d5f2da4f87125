package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"padme/pubsub"
)

// A map shows each robot once it has heard of it, and removes those that are gone.
func ExampleReader_Read() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "map")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Position struct {
		Robot string `pubsub:"key"`
		X     float64
	}
	topic, err := pubsub.NewTopic[Position](p, "positions")
	if err != nil {
		log.Fatal(err)
	}
	qos := pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.TransientLocal}
	w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	_ = w.Write(ctx, Position{Robot: "r1", X: 3})
	_ = w.Write(ctx, Position{Robot: "r2", X: 5})

	r, err := pubsub.NewReader(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	if err := r.WaitForHistoricalData(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range r.Read(10, pubsub.NotRead, pubsub.Alive) { // the samples stay
		fmt.Println(s.Data.Robot, "at", s.Data.X, "is", s.Info.ViewState)
	}

	_ = w.Write(ctx, Position{Robot: "r1", X: 4})
	if err := r.Wait(ctx, pubsub.NotRead); err != nil {
		log.Fatal(err)
	}
	r1, _ := r.Lookup(Position{Robot: "r1"})
	for _, s := range r.Read(10, r1) {
		fmt.Println(s.Data.Robot, "at", s.Data.X, "is", s.Info.ViewState)
	}

	_ = w.Dispose(ctx, Position{Robot: "r2"})
	if err := r.Wait(ctx, pubsub.Disposed, pubsub.NoWriters); err != nil {
		log.Fatal(err)
	}
	for _, s := range r.Take(10, pubsub.Disposed, pubsub.NoWriters) {
		fmt.Println(s.Info.Key, "is", s.Info.InstanceState, "its value:", s.Info.Valid)
	}
	// Output:
	// r1 at 3 is new
	// r2 at 5 is new
	// r1 at 4 is not-new
	// r2 is disposed its value: true
	// r2 is disposed its value: false
}
