package promises

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/brokers"
)

// history is how many samples the writer keeps for a reader that is away.
const history = 8192

// traffic is a writer without pause, and its reader behind a wire that can be cut.
type traffic struct {
	url    string
	to     *wire
	reader *pubsub.Participant
	from   *wire
	taken  atomic.Int64
}

func startTraffic(t testing.TB, url string) *traffic {
	t.Helper()
	f := &traffic{url: url, to: wireTo(url), from: wireTo(url)}
	f.reader = join(t, url, "reader", f.to.option())
	r := reader(t, f.reader, "t", keepAll)
	q := keepAll
	q.MaxBlocking, q.MaxSamples = patience, history
	w := writer(t, join(t, url, "writer", f.from.option()), "t", q)
	matched(t, w, 1)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 3)
	t.Cleanup(func() {
		stop()
		for range cap(done) {
			<-done
		}
	})
	go func() {
		defer func() { done <- struct{}{} }()
		next := 0
		for s, err := range r.Samples(ctx) {
			if err != nil || s.Data.N != next {
				t.Errorf("sample %d came where %d was due: %v", s.Data.N, next, err)
				return
			}
			next++
			f.taken.Add(1)
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for e := range r.Events(ctx) {
			if lost, is := e.(pubsub.SampleLost); is {
				t.Error(lost)
			}
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for n := 0; ctx.Err() == nil; n++ {
			if err := w.Write(ctx, value{"a", n}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	return f
}

// flow is how many samples a second the reader takes, and how many messages the writer
// sends for each.
func (f *traffic) flow(d time.Duration) (perSecond, messages float64) {
	taken, sent, began := f.taken.Load(), f.from.out.Load(), time.Now()
	time.Sleep(d)
	n := float64(f.taken.Load() - taken)
	return n / time.Since(began).Seconds(), float64(f.from.out.Load()-sent) / n
}

// outage cuts the reader off for a while. The channel gets when the reader is connected
// again.
func (f *traffic) outage(d time.Duration) (back <-chan time.Time) {
	up := make(chan time.Time, 1)
	var once sync.Once
	f.reader.Notify(func(is bool) {
		if is {
			once.Do(func() { up <- time.Now() })
		}
	})
	f.to.cut()
	time.Sleep(d)
	f.to.restore(f.url)
	return up
}

// Finding 2: after an outage of its reader a writer without pause sends again what the
// reader has missed, and nothing else twice.
func TestThroughputRecoversFromAnOutage(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		f := startTraffic(t, url)
		time.Sleep(200 * time.Millisecond)
		back := f.outage(time.Second) // the history is full
		began, taken, sent := <-back, f.taken.Load(), f.from.out.Load()
		for n := int64(0); n < 4*history; n = f.taken.Load() - taken {
			if time.Since(began) > 3*patience {
				t.Fatalf("%d samples within %v", n, 3*patience)
			}
			time.Sleep(10 * time.Millisecond)
		}
		messages := float64(f.from.out.Load()-sent) / float64(f.taken.Load()-taken)
		t.Logf("%.2f messages a sample, %v for %d samples", messages, time.Since(began), 4*history)
		if messages > 1.5 {
			t.Errorf("%.2f messages a sample", messages)
		}
	})
}

// BenchmarkOutage has a reader cut off for 3 s, again and again. It prints samples a
// second and messages a sample before, and from 2 to 4 s after the end of the outage, and
// how long after it the reader was connected again, and a tenth of a second first had nine
// tenths of the throughput before; the worst of each.
func BenchmarkOutage(b *testing.B) {
	f := startTraffic(b, brokers.Use(b))
	time.Sleep(time.Second)
	worst := map[string]float64{}
	note := func(name string, v float64) { worst[name] = max(worst[name], v) }
	least := math.Inf(1)
	for b.Loop() {
		before, messages := f.flow(2 * time.Second)
		note("before-messages/sample", messages)
		connected := f.outage(3 * time.Second)
		ended, back := time.Now(), 4*time.Second
		for time.Since(ended) < 2*time.Second {
			if now, _ := f.flow(100 * time.Millisecond); now >= 0.9*before {
				back = min(back, time.Since(ended))
			}
		}
		after, messages := f.flow(2 * time.Second)
		note("after-messages/sample", messages)
		note("connected-s", (<-connected).Sub(ended).Seconds())
		note("back-s", back.Seconds()) // 4: not within 2
		note("before/s", before)
		least = min(least, after)
	}
	b.ReportMetric(least, "after/s")
	for name, v := range worst {
		b.ReportMetric(v, name)
	}
}
