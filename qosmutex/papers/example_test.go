package papers_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/papers"
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

// Three participants run Ricart and Agrawala's algorithm instead of PADME.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	algorithm, err := papers.AlgorithmNamed("ricart-agrawala")
	if err != nil {
		log.Fatal(err)
	}
	members := []string{"ann", "bob", "cid"}
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for _, id := range members {
		p := exampleJoin(ctx, b, id)
		defer p.Close(ctx)
		topic, err := papers.Open(p, "license", papers.Config{Algorithm: algorithm, Members: members, Resources: []string{"seat"}, Hop: 2 * time.Millisecond})
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

// The algorithms, and what a crash does to each.
func ExampleAlgorithms() {
	for _, a := range papers.Algorithms() {
		if !a.Static {
			fmt.Println(a.Name, "needs no list of members")
		}
	}
	// Output: padme needs no list of members
}

func ExampleAlgorithmNamed() {
	a, err := papers.AlgorithmNamed("central")
	fmt.Println(a.Name, a.Messages, err)
	_, err = papers.AlgorithmNamed("center")
	fmt.Println(err != nil)
	// Output:
	// central 3 (0 at the server) <nil>
	// true
}
