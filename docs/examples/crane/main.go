// Command crane moves a crane that it shares with others: the program of
// docs/tutorial.md. It needs a broker that creates locks, such as `pubsub-node broker`.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"padme/pubsub"
	"padme/qosmutex"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cmp.Or(os.Getenv("PADME_BROKER"), "mqtt://127.0.0.1:1883")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, broker string) error {
	me, err := pubsub.Join(ctx, broker, fmt.Sprintf("crane-driver-%d", os.Getpid()))
	if err != nil {
		return err
	}
	defer me.Close(context.WithoutCancel(ctx))
	crane, err := qosmutex.Open(ctx, me, "crane")
	if err != nil {
		return err
	}
	defer crane.Close(context.WithoutCancel(ctx))
	return crane.Do(ctx, "default", func(ctx context.Context, hold *qosmutex.Hold) error {
		fmt.Println("in with fence", hold.Fence())
		for meter := 1; meter <= 3; meter++ {
			if err := hold.Check(); err != nil { // right before each effect
				return err
			}
			fmt.Println("down", meter)
		}
		return nil
	}, qosmutex.WithPriority(1))
}
