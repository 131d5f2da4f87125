package watchers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"padme/pubsub"
)

// watchEnv makes the test binary a process that watches every lock topic at the
// broker with this URL.
const watchEnv = "PADME_TEST_WATCH"

func TestMain(m *testing.M) {
	if url := os.Getenv(watchEnv); url != "" {
		watch(url)
		return
	}
	goleak.VerifyTestMain(m)
}

// watch prints the topic of each message until it is killed.
func watch(url string) {
	ctx := context.Background()
	p, err := pubsub.Join(ctx, url, "watcher")
	if err == nil {
		_, err = p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "#"}, func(m pubsub.RawMessage) { fmt.Println(m.Levels, len(m.Payload)) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-p.Done()
}
