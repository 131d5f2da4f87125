package promises

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
)

// A transient reader that is made while writers write and close ends with the last value of
// each of their instances, at whatever moment of theirs it comes.
func TestATransientReaderEndsWithTheLastValues(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		const writers, rounds, samples = 3, 12, 40
		last := pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.Transient}
		var writing sync.WaitGroup
		for i := range writers {
			p := join(t, url, fmt.Sprint("writer", i))
			writing.Go(func() {
				for round := range rounds {
					w := writer(t, p, "t", last)
					for n := range samples {
						write(t, w, fmt.Sprint(i, round), n)
					}
					if err := w.Close(within(t, patience)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		written := make(chan struct{})
		go func() { defer close(written); writing.Wait() }()
		var readers []*pubsub.Reader[value]
		for going := true; going; {
			readers = append(readers, reader(t, join(t, url, fmt.Sprint("reader", len(readers))), "t", last))
			select {
			case <-written:
				going = false
			default:
			}
		}
		for i, r := range readers {
			have := func() (right, wrong int) {
				for _, s := range r.Read(math.MaxInt32) {
					if !s.Info.Valid {
						continue
					}
					if s.Data.N == samples-1 {
						right++
					} else {
						wrong++
					}
				}
				return right, wrong
			}
			for deadline := time.Now().Add(patience / 4); ; time.Sleep(10 * time.Millisecond) {
				right, wrong := have()
				if right == writers*rounds && wrong == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Errorf("reader %d of %d has the last value of %d instances of %d, and another of %d", i, len(readers), right, writers*rounds, wrong)
					break
				}
			}
		}
	})
}
