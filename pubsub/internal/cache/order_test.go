package cache

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// Two readers that get the samples of several writers in different orders end
// with the same one, give times that never fall, and count what they drop.
func TestReadersBySourceTimeAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{BySourceTime: true, KeepAll: true, MaxSamples: 100, MaxInstances: 1}
		var samples []Sample
		for i := range rapid.IntRange(1, 12).Draw(t, "samples") {
			w := &Writer{GUID: wire.GUID{Participant: "p", Incarnation: 1, Endpoint: rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(t, "writer")}}
			samples = append(samples, Sample{
				Key: "k", Writer: w, Seq: uint64(i + 1), Nanos: uint64(rapid.IntRange(1, 4).Draw(t, "time")),
				Status: wire.Status(rapid.IntRange(0, 1).Draw(t, "status")),
			})
		}
		var ends []moment
		for _, order := range []string{"first", "second"} {
			c := New(&q)
			late := 0
			for _, s := range rapid.Permutation(samples).Draw(t, order) {
				if _, err := c.Accept(s, time.Now()); errors.Is(err, ErrLate) {
					late++
				}
			}
			i := c.byKey["k"]
			var last moment
			given := 0
			for _, h := range c.Collect(100, &Selection{}, true, nil) {
				m := h.moment()
				if m.compare(last) < 0 {
					t.Fatalf("%v after %v", m, last)
				}
				last = m
				given++
			}
			if given+late > len(samples) {
				t.Fatalf("%d given, %d late, of %d", given, late, len(samples))
			}
			ends = append(ends, i.newest)
		}
		if ends[0] != ends[1] {
			t.Fatalf("two readers end with %+v and %+v", ends[0], ends[1])
		}
	})
}
