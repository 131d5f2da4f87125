package qosmutex_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

func transmit(_ context.Context, frequency string, fence uint64) error {
	fmt.Println("robot-7 sends on", frequency, fence > 0)
	return nil
}

func share(ctx context.Context, url string) error {
	node, err := pubsub.Join(ctx, url, "robot-7")
	if err != nil {
		return err
	}
	defer node.Close(ctx)
	freq, err := qosmutex.Open(ctx, node, "frequencies", qosmutex.WithResources("146.52", "446.00"))
	if err != nil {
		return err // says what to start if nobody serves the topic
	}
	defer freq.Close(ctx)
	return freq.Do(ctx, qosmutex.Any, func(ctx context.Context, hold *qosmutex.Hold) error {
		return transmit(ctx, hold.Resource(), hold.Fence()) // ctx ends if the lock is lost
	}, qosmutex.WithPriority(3))
}

// README's code, against a base that creates the topic.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b := exampleBroker(ctx)
	defer b.Close(ctx)
	base := exampleJoin(ctx, b, "base")
	defer base.Close(ctx)
	topic, err := qosmutex.Open(ctx, base, "frequencies", qosmutex.Create(),
		qosmutex.WithResources("146.52", "446.00"), qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Close(ctx)
	fmt.Println(share(ctx, b.URL()))
	// Output:
	// robot-7 sends on 146.52 true
	// <nil>
}

func TestREADMEShowsThisCode(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```go\n")
	block, _, _ = strings.Cut(block, "```")
	if !found || !strings.Contains(string(source), block) {
		t.Errorf("README's Go code is not that of this file:\n%s", block)
	}
}
