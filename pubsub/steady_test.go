package pubsub

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// tally counts what two participants tell each other of samples; p listens.
type tally struct {
	mu sync.Mutex
	n  map[wire.RepairOp]int
}

func newTally(t *testing.T, p *Participant, a, b string) *tally {
	t.Helper()
	c := &tally{n: map[wire.RepairOp]int{}}
	for _, way := range [][2]string{{a, b}, {b, a}} {
		stop, err := p.SubscribeRaw(testContext(t), Main, []string{"node", way[0], way[1]}, func(m RawMessage) {
			var e wire.Envelope
			if err := wire.Parse(m.Payload, &e); err != nil {
				return
			}
			if m, err := wire.ParseRepair(e.Body); err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.n[m.Op]++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return c
}

// take returns the count since it was called last.
func (c *tally) take(op wire.RepairOp) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.n[op] = 0 }()
	return c.n[op]
}

// The next sample of a writer that keeps its pace tells a reader what it lacks, so no
// reader need be asked until one is overdue.
func TestAWriterThatKeepsItsPaceAsksNoReader(t *testing.T) {
	for _, pace := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		t.Run(pace.String(), func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				q := QoS{Reliability: Reliable, History: KeepAll}
				w, r := writerOf(t, topicOf[pose](t, d.join("a"), "p"), q), readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
				awaitReaders(t, w, 1)
				c := newTally(t, d.join("c"), "a", "b")
				more := func(n int) {
					for range n {
						write(t, w, poseOf("k", 1))
						pass(pace)
					}
				}
				more(10)
				c.take(wire.OpHeartbeat)
				more(500)
				if asked := c.take(wire.OpHeartbeat); asked > 0 {
					t.Errorf("%d questions in 500 samples", asked)
				}
				if got := len(values(r)); got != 510 {
					t.Errorf("%d of 510 samples", got)
				}
				pass(max(4*pace, time.Second/5))
				if held := w.send.Held(); held > 0 || c.take(wire.OpHeartbeat) != 1 {
					t.Errorf("%d samples are not acknowledged when the next one is overdue", held)
				}
				write(t, w, poseOf("k", 1))
				for range 200 { // after a pause the pace is another
					write(t, w, poseOf("k", 1))
				}
				if pass(time.Second / 2); w.send.Held() > 0 {
					t.Errorf("%d samples of a burst are not acknowledged", w.send.Held())
				}
			})
		})
	}
}

// What a reader that keeps up has, its writer need not keep.
func TestLargeSamplesAreAcknowledgedByTheirBytes(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll}
		w, r := writerOf(t, topicOf[block](t, d.join("a"), "p"), q), readerOf(t, topicOf[block](t, d.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		for range 100 {
			write(t, w, block{make([]byte, 900<<10)})
			pass(time.Second)
			if held := w.send.Held(); held > 8 {
				t.Fatalf("%d MB are held", held)
			}
			r.Take(10)
		}
	})
}

// secondConn is a participant's connection for samples, as it is made second.
type secondConn struct {
	mu   sync.Mutex
	conn net.Conn
	away bool
}

func joinBySecond(t *testing.T, d *world, id string) (*Participant, *secondConn) {
	t.Helper()
	c := &secondConn{}
	return join(t, "", id, WithDialer(func(ctx context.Context) (net.Conn, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.away {
			return nil, errors.New("one connection is enough")
		}
		var err error
		c.conn, err = d.b.Dial(ctx)
		return c.conn, err
	})), c
}

// set cuts it, or lets it be made again.
func (c *secondConn) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away = away; away {
		c.conn.Close()
	}
}

// A writer's silence about samples that do not come must not be the last word: the
// connection for samples may be away while that for questions is not.
func TestAReaderAsksWhileItsConnectionForSamplesIsAway(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll}
		b, c := joinBySecond(t, d, "b")
		w, r := writerOf(t, topicOf[pose](t, d.join("a"), "p"), q), readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 1)
		x := 0.0
		arrives := func(within time.Duration) {
			t.Helper()
			x++
			write(t, w, poseOf("k", x))
			if pass(within); !slices.Equal(values(r), []float64{x}) {
				t.Errorf("sample %g did not come within %s", x, within)
			}
		}
		for range 10 {
			arrives(20 * time.Second)
		}
		c.set(true)
		for range 3 {
			arrives(2 * time.Second)
		}
		pass(10 * time.Second)
		write(t, w, poseOf("k", 0))
		c.set(false)
		if _, err := b.exchange.data.Online(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if pass(time.Millisecond); !slices.Equal(values(r), []float64{0}) {
			t.Error("what was written meanwhile did not come with the connection")
		}
		arrives(time.Millisecond)
	})
}

// What was written while the writer was away comes with its connections, at any pace.
func TestWhatIsWrittenOfflineComesWithTheConnection(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll}
		a, c := joinBySecond(t, d, "a")
		w, r := writerOf(t, topicOf[pose](t, a, "p"), q), readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		for x := range 20 {
			c.set(x%2 == 1)
			pass(20 * time.Second)
			write(t, w, poseOf("k", float64(x)))
			c.set(false)
			if _, err := a.exchange.data.Online(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if pass(time.Millisecond); !slices.Equal(values(r), []float64{float64(x)}) {
				t.Errorf("sample %d did not come", x)
			}
		}
	})
}
