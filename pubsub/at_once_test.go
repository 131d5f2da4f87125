package pubsub

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Programs that join, write and close as fast as they can.

var tenInARow = []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

// slowly joins over a way on which each write takes that long.
func (w *world) slowly(id string, takes time.Duration) *Participant {
	w.t.Helper()
	w.t.Cleanup(func() { pass(time.Minute) }) // until what was under way has left
	var nanos atomic.Int64
	nanos.Store(int64(takes))
	return join(w.t, "", id, WithDialer(func(ctx context.Context) (net.Conn, error) {
		conn, err := w.b.Dial(ctx)
		return newSlowWay(conn, &nanos), err
	}))
}

// keptFor is everything, with a durability.
func keptFor(d Durability) QoS {
	q := everything
	q.Durability = d
	return q
}

func TestWhatIsWrittenAtOnceReachesTheReadersThatWereThere(t *testing.T) {
	for name, d := range map[string]Durability{"volatile": Volatile, "transient-local": TransientLocal, "transient": Transient} {
		for _, c := range []struct{ writer, readers time.Duration }{
			{0, 0}, {20 * time.Millisecond, 0}, {100 * time.Millisecond, 0}, {0, 100 * time.Millisecond},
		} {
			t.Run(fmt.Sprintf("%s, writer %v, readers %v", name, c.writer, c.readers), func(t *testing.T) {
				virtually(t, func(t *testing.T, w *world) {
					q := keptFor(d)
					var readers []*Reader[pose]
					for _, id := range []string{"b", "c"} {
						readers = append(readers, readerOf(t, topicOf[pose](t, w.slowly(id, c.readers), "p"), q))
					}
					pass(time.Minute)
					a := w.slowly("a", c.writer)
					out := writerOf(t, topicOf[pose](t, a, "p"), q)
					for _, x := range tenInARow {
						write(t, out, poseOf("r", x))
					}
					if err := out.Close(testContext(t)); err != nil {
						t.Error(err)
					}
					closeNow(t, a)
					pass(time.Minute)
					for _, r := range readers {
						if got := values(r); !slices.Equal(got, tenInARow) {
							t.Errorf("%v got %v", r.GUID(), got)
						}
					}
				})
			})
		}
	}
}

// Several writers are made at the same time, two for each topic, with large samples.
func TestManyWritersAtOnceReachTheReadersThatWereThere(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		b, q := w.join("b"), keptFor(Volatile)
		readers := map[string]*Reader[pose]{}
		for i := range 8 {
			name := fmt.Sprint("p", i)
			readers[name] = readerOf(t, topicOf[pose](t, b, name), q)
		}
		a := w.join("a")
		large := []string{strings.Repeat("r", 100<<10)}
		var wg sync.WaitGroup
		for name := range readers {
			for range 2 {
				wg.Go(func() {
					out := writerOf(t, topicOf[pose](t, a, name), q)
					for _, x := range tenInARow {
						write(t, out, pose{Robot: "r", X: x, Tags: large})
					}
				})
			}
		}
		wg.Wait()
		closeNow(t, a)
		pass(time.Second)
		for name, r := range readers {
			if got := values(r); len(got) != 20 {
				t.Errorf("%s got %v", name, got)
			}
		}
	})
}

// A reader that comes just before the writer's end still gets the history.
func TestALateJoinerGetsTheHistoryOfAWriterThatClosesAtOnce(t *testing.T) {
	q := keptFor(TransientLocal)
	for _, end := range []string{"the writer", "its participant"} {
		t.Run(end, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a, b := w.slowly("a", 20*time.Millisecond), w.join("b")
				out := writerOf(t, topicOf[pose](t, a, "p"), q)
				for _, x := range tenInARow {
					write(t, out, poseOf("r", x))
				}
				pass(time.Second)
				r := readerOf(t, topicOf[pose](t, b, "p"), q)
				if end == "the writer" {
					if err := out.Close(testContext(t)); err != nil {
						t.Error(err)
					}
				} else {
					closeNow(t, a)
				}
				pass(time.Second)
				if got := values(r); !slices.Equal(got, tenInARow) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// A reader that has waited for a writer of which it has known for long, or has just heard,
// gets what that writes from then on, however late the writer hears of the reader.
func TestWhatIsWrittenOnceTheReaderHasWaitedForItsWriterArrives(t *testing.T) {
	for name, joins := range map[string]func(w *world, a *Participant) *Participant{
		"of the same participant":         func(_ *world, a *Participant) *Participant { return a },
		"of another participant":          func(w *world, _ *Participant) *Participant { return w.join("b") },
		"of another participant, far off": func(w *world, _ *Participant) *Participant { return w.slowly("b", 20*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a := w.join("a")
				out := writerOf(t, topicOf[pose](t, a, "p"), everything)
				in := topicOf[pose](t, joins(w, a), "p")
				for i := range 20 {
					r := readerOf(t, in, everything)
					if err := r.WaitMatched(testContext(t), 1); err != nil {
						t.Fatal(err)
					}
					write(t, out, poseOf("r", float64(i)))
					pass(time.Second)
					if got := values(r); !slices.Equal(got, []float64{float64(i)}) {
						t.Errorf("reader %d got %v", i, got)
					}
					if i%2 > 0 { // the others stay, so that the writer is known before the next comes
						r.Close()
					}
				}
			})
		})
	}
}

// A writer that is there, but does not answer, does not count: it is not known with which
// sample the reader begins.
func TestAReaderWaitsForAWriterThatDoesNotAnswerUntilItsContextEnds(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, way := w.joinBy("a")
		writerOf(t, topicOf[pose](t, a, "p"), everything)
		pass(time.Second)
		way.Mute(true)
		for q, want := range map[Reliability]int{BestEffort: 1, Reliable: 0} {
			r := readerOf(t, topicOf[pose](t, w.join(name("b", want)), "p"), QoS{Reliability: q})
			ctx, cancel := context.WithTimeout(testContext(t), time.Second)
			err := r.WaitMatched(ctx, 1)
			cancel()
			if n, _ := r.recv.Matches(); n != want || (err == nil) != (want == 1) {
				t.Errorf("reliability %v: %d match: %v", q, n, err)
			}
		}
		way.Mute(false)
	})
}
