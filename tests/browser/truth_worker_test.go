//go:build linux

package browser

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// workerEnv makes a process of this test binary a worker: the broker's URL and an id.
const workerEnv = "PADME_BROWSER_WORKER"

// truthTTL is longer than a page may lag, so that a page that waits for it is found out.
const truthTTL = 6 * time.Second

var truthResources = []string{"north", "south"}

// workUntilKilled locks and unlocks until the process is killed. It prints what it does, with the
// wall clock in nanoseconds: "asks RESOURCE TIME" before it asks, "in RESOURCE TIME FENCE"
// when it has the lock, "out RESOURCE TIME" before it unlocks or when the lock is lost.
func workUntilKilled() error {
	url, id, _ := strings.Cut(os.Getenv(workerEnv), " ")
	ctx := context.Background()
	p, err := pubsub.Join(ctx, url, id)
	if err != nil {
		return err
	}
	timing := qosmutex.LAN()
	timing.TTL = truthTTL
	topic, err := qosmutex.Open(ctx, p, "crane", qosmutex.WithTiming(timing))
	if err != nil {
		return err
	}
	tell := func(what, resource string, more ...any) {
		fmt.Println(append([]any{what, resource, time.Now().UnixNano()}, more...)...)
	}
	for {
		resource := truthResources[rand.IntN(len(truthResources))]
		tell("asks", resource)
		h, err := topic.Lock(ctx, resource, qosmutex.WithPriority(rand.Int64N(10)))
		if err != nil {
			tell("out", resource)
			time.Sleep(time.Second)
			continue
		}
		tell("in", resource, h.Fence())
		select {
		case <-h.Context().Done():
		case <-time.After(time.Duration(500+rand.IntN(5000)) * time.Millisecond):
		}
		tell("out", resource)
		_ = h.Unlock()
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Millisecond)
	}
}
