package timing

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The list of deadlines tells the same as looking at every instance each time.
func TestDeadlinesAreMissedInOrderAndOncePerPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const period = 10 * time.Second
		d := Deadlines{Period: period}
		now := time.Unix(0, 0)
		due := map[string]time.Time{}
		total := uint64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				d.Met(key, now)
				due[key] = now.Add(period)
			case 2:
				d.End(key)
				delete(due, key)
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 25).Draw(t, "seconds")) * time.Second)
			}
			var want, got []string
			var next time.Time
			for k := range due {
				if !now.Before(due[k]) {
					want = append(want, k)
				}
				for !now.Before(due[k]) {
					due[k] = due[k].Add(period)
					total++
				}
				next = Earliest(next, due[k])
			}
			d.Missed(now, func(key string) { got = append(got, key) })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) || !d.Next().Equal(next) || d.Total != total || d.queue.Len() != len(due) || len(d.byKey) != len(due) {
				t.Fatalf("missed %v, %d in all, next %v; want %v, %d, %v", got, d.Total, d.Next(), want, total, next)
			}
		}
	})
}
