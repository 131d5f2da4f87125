package broker_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"padme/broker"
)

// Retained messages are written while subscriptions read them; with -race this
// fails without the guard of retain.go.
func TestRetainingWhileOthersSubscribe(t *testing.T) {
	b := start(t, broker.Config{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			c := connect(t, inProcess(b))
			for n := range 200 {
				c.publish(fmt.Sprintf("r/%d/%d", i, n%10), strings.Repeat("x", n/10%2), byte(n%2), true) // an empty one clears
			}
		})
		wg.Go(func() {
			c := connect(t, inProcess(b))
			for range 100 {
				c.granted("r/+/+", 1)
				c.Unsubscribe("r/+/+").Wait()
			}
		})
	}
	wg.Wait()
}
