//go:build unix

package watchers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
)

const (
	// alone and beside are how long hand-overs are measured without and with a
	// stalled watcher; beside is longer than the TTL, so that sessions would expire.
	alone  = 2 * time.Second
	beside = 4 * time.Second
	// brokerPatience is how long the broker bears a client that takes nothing:
	// longer than a measurement, also on a busy machine.
	brokerPatience = 30 * time.Second
	// pause is the longest between two entries that a busy machine may cause.
	pause = beside / 2
)

// lockers are two participants that hand a lock over continually, and its root.
type lockers struct {
	broker *broker.Broker
	topics []*qosmutex.Topic // the root first
}

// newLockers starts them; they and the broker end with the test.
func newLockers(t *testing.T) *lockers {
	t.Helper()
	ctx := t.Context()
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0", Limits: broker.Limits{WriteTimeout: brokerPatience}})
	if err != nil {
		t.Fatal(err)
	}
	closing := func(what string, end func(context.Context) error) {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := end(ctx); err != nil {
				t.Errorf("closing %s: %v", what, err)
			}
		})
	}
	closing("broker", b.Close)
	l := &lockers{broker: b}
	for _, id := range []string{"root", "a", "b"} {
		var opts []pubsub.Option
		lock := []qosmutex.Option{qosmutex.WithTiming(qosmutex.LAN())}
		if id == "root" {
			opts = append(opts, pubsub.WithDialer(b.Dial))
			lock = append(lock, qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithNodePriority(-1))
		}
		p, err := pubsub.Join(ctx, b.URL(), id, opts...)
		if err != nil {
			t.Fatal(err)
		}
		closing(id, p.Close)
		topic, err := qosmutex.Open(ctx, p, "crane", lock...)
		if err != nil {
			t.Fatal(err)
		}
		closing("topic of "+id, topic.Close)
		l.topics = append(l.topics, topic)
	}
	// Nothing is granted for a grace after the register was new.
	if err := l.topics[1].Do(ctx, "hook", func(context.Context, *qosmutex.Hold) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return l
}

// handOvers lets the two contend for d and returns the times between two entries,
// and from the last one to the end, sorted.
func (l *lockers) handOvers(t *testing.T, d time.Duration) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var (
		mu    sync.Mutex
		last  = time.Now()
		gaps  []time.Duration
		tasks sync.WaitGroup
	)
	for _, topic := range l.topics[1:] {
		tasks.Go(func() {
			for ctx.Err() == nil {
				hold, err := topic.Lock(ctx, "hook")
				if err != nil {
					if !errors.Is(err, qosmutex.ErrTimeout) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				gaps = append(gaps, time.Since(last))
				last = time.Now()
				mu.Unlock()
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-ctx.Done()
	mu.Lock()
	gaps = append(gaps, time.Since(last)) // to the end, in which there may have been none
	mu.Unlock()
	tasks.Wait()
	slices.Sort(gaps)
	return gaps
}

// harm counts the sessions that expired and the holds that were lost.
func (l *lockers) harm() (n uint64) {
	for _, topic := range l.topics {
		c := topic.Status().Counters
		n += c.Expiries + c.Losses
	}
	return n
}

// TestStalledWatcherDoesNotDelayLocks stops a process that subscribes to every
// lock topic at QoS 1, until the broker holds up whoever publishes there.
func TestStalledWatcherDoesNotDelayLocks(t *testing.T) {
	extent.Long(t, "queues that fill up")
	for kind, begin := range watchers(t) {
		t.Run(kind, func(t *testing.T) {
			l := newLockers(t)
			before := l.handOvers(t, alone)
			if len(before) < 10 {
				t.Fatalf("%d hand-overs in %v: nothing to compare with", len(before), alone)
			}
			w := begin(t, l.broker.URL(), "padme/v1/default/lock/#")
			w.awaitLine(t) // the retained view
			w.stop(t)
			stalled := stall(t, l.broker.URL())

			harmed := l.harm() // the flood may keep a busy machine from everything else
			during := l.handOvers(t, beside)
			if !stalled() {
				t.Fatal("the watcher was not stalled for the whole time: nothing was tested")
			}
			if n := l.harm() - harmed; n > 0 {
				t.Errorf("%d sessions expired or holds were lost beside a stalled watcher", n)
			}
			m0, m1 := before[len(before)/2], during[len(during)/2]
			t.Logf("median hand-over %v alone (%d in %v), %v beside a stalled watcher (%d in %v): ratio %.2f; longest %v and %v",
				m0, len(before), alone, m1, len(during), beside, float64(m1)/float64(m0), before[len(before)-1], during[len(during)-1])
			if m1 > 3*m0 {
				t.Errorf("the median hand-over takes %v beside a stalled watcher, %v without", m1, m0)
			}
			if longest := during[len(during)-1]; longest > pause {
				t.Errorf("there was no hand-over for %v beside a stalled watcher", longest)
			}
		})
	}
}

// stall publishes to a lock topic until the broker stops acknowledging, because a
// subscriber does. The result tells whether that is still so.
func stall(t *testing.T, url string) (stillStalled func() bool) {
	t.Helper()
	const messages = 40000
	p := newPublisher(t, url)
	p.flood(t, "padme/v1/default/lock/flood/events", []byte(strings.Repeat("{}\n", 300)), messages)
	since := time.Now() // a busy broker, too, acknowledges nothing for a moment
	for last := int64(-1); ; time.Sleep(50 * time.Millisecond) {
		acked := p.acked.Load()
		if acked == messages {
			t.Fatal("the broker took everything: the watcher is not stalled")
		}
		if acked != last {
			last, since = acked, time.Now()
		} else if time.Since(since) > time.Second {
			return func() bool { return p.acked.Load() == acked }
		}
	}
}
