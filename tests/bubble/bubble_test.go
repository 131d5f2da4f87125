package bubble_test

import (
	"sync"
	"testing"
	"time"

	"padme/tests/bubble"
)

// Under the detector this kills the process within a tenth of a second when the
// bubble has two processors.
func TestTimersOfManyGoroutines(t *testing.T) {
	for _, name := range []string{"one", "another beside it"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(*testing.T) {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						for range 2000 {
							a, b := time.After(time.Millisecond), time.After(time.Millisecond)
							time.Sleep(time.Second)
							for range 2 {
								select {
								case <-a:
								case <-b:
								}
							}
						}
					})
				}
				all.Wait()
			})
		})
	}
}
