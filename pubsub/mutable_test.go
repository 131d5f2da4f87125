package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/partition"
)

var local = QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll}

// in returns q in other partitions.
func in(q QoS, partition ...string) QoS {
	q.Partition = partition
	return q
}

func moveWriter(t *testing.T, w *Writer[pose], partition ...string) {
	t.Helper()
	if err := w.SetQoS(in(w.QoS(), partition...)); err != nil {
		t.Fatal(err)
	}
}

func moveReader(t *testing.T, r *Reader[pose], partition ...string) {
	t.Helper()
	if err := r.SetQoS(testContext(t), in(r.QoS(), partition...)); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatIsChangeableChanges tries each policy there is.
func TestOnlyWhatIsChangeableChanges(t *testing.T) {
	changeable := map[string]bool{"Deadline": true, "Lifespan": true, "Strength": true, "Partition": true, "TimeBasedFilter": true}
	of := map[string]string{
		"Reliability": "RELIABILITY", "MaxBlocking": "RELIABILITY", "Durability": "DURABILITY", "History": "HISTORY", "Depth": "HISTORY",
		"MaxSamples": "RESOURCE_LIMITS", "MaxInstances": "RESOURCE_LIMITS", "Liveliness": "LIVELINESS", "LivelinessLease": "LIVELINESS",
		"DurabilityService": "DURABILITY_SERVICE", "Exclusive": "OWNERSHIP", "BySourceTime": "DESTINATION_ORDER", "AllowCompatible": "TYPE_CONSISTENCY",
	}
	for _, base := range []QoS{
		{Reliability: Reliable, Exclusive: true},
		{Reliability: Reliable, Exclusive: true, Durability: TransientLocal, History: KeepAll, DurabilityService: 3},
	} {
		if err := base.validate(); err != nil {
			t.Fatal(err)
		}
		for i := range reflect.TypeFor[QoS]().NumField() {
			field := reflect.TypeFor[QoS]().Field(i).Name
			_, err := base.changeable(base.otherwise(i), func(*QoS) error { return nil })
			switch {
			case changeable[field]:
				if err != nil {
					t.Errorf("%s: %v", field, err)
				}
			case errors.Is(err, ErrUnsupportedQoS):
			case !errors.Is(err, ErrInvalid) || of[field] == "" || !strings.Contains(err.Error(), of[field]):
				t.Errorf("%s: %v", field, err)
			}
		}
	}
}

// otherwise is q with another value in a field.
func (q QoS) otherwise(field int) QoS {
	to := q.own()
	switch f := reflect.ValueOf(&to).Elem().Field(field); f.Kind() {
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Slice:
		f.Set(reflect.ValueOf([]string{"elsewhere"}))
	case reflect.Uint8:
		f.SetUint(1 - f.Uint())
	case reflect.Int64:
		f.SetInt(int64(time.Hour))
	default:
		f.SetInt(7)
	}
	return to
}

func TestAChangeThatIsRefusedChangesNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		b, fuse := d.joinBy("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), local)
		r := readerOf(t, topicOf[pose](t, b, "p"), local)
		awaitReaders(t, w, 1)
		offers, requests := w.QoS(), r.QoS()
		for _, bad := range []QoS{{}, in(local, "a", "a"), {Reliability: Reliable, Durability: TransientLocal, History: KeepAll, Deadline: -1}, in(local, "[")} {
			bad.Partition = append([]string{"x"}, bad.Partition...)
			if err := w.SetQoS(bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("a writer with %+v: %v", bad, err)
			}
			if err := r.SetQoS(testContext(t), bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("a reader with %+v: %v", bad, err)
			}
		}
		bad := local
		bad.Lifespan = time.Second
		if err := r.SetQoS(testContext(t), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("a reader with a lifespan: %v", err)
		}
		fuse.blow(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.SetQoS(ctx, in(local, "x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("offline: %v", err)
		}
		fuse.blow(false)
		settle(time.Minute)
		if !reflect.DeepEqual(w.QoS(), offers) || !reflect.DeepEqual(r.QoS(), requests) {
			t.Errorf("now %+v and %+v", w.QoS(), r.QoS())
		}
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		expectXs(t, "the reader", r, 1)
		r.Close()
		if err := r.SetQoS(testContext(t), in(local, "x")); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed reader: %v", err)
		}
		if n := len(r.subscribed); n > 0 {
			t.Errorf("a closed reader has %d subscriptions", n)
		}
	})
}

func TestAWriterThatMovesHasOtherReaders(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), in(local, "p1"))
		was := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p1"))
		stays := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p1", "p2"))
		pattern := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p*"))
		comes := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p2"))
		volatile := readerOf(t, topicOf[pose](t, b, "p"), in(keepAll, "p2"))
		awaitReaders(t, w, 3)
		for i := range 3 {
			write(t, w, poseOf("r", float64(i)))
		}
		moveWriter(t, w, "p2") // what was written is on its way
		for i := range 3 {
			write(t, w, poseOf("r", float64(10+i)))
		}
		settle(10 * time.Second)
		if got := states(was)["r"]; got != NoWriters {
			t.Errorf("where it was the instance is %v", got)
		}
		for _, e := range drain(was.ep.events) {
			if lost, ok := e.(SampleLost); ok {
				t.Errorf("where it was: %+v", lost)
			}
		}
		if n := matchedPeers(was); n != 0 {
			t.Errorf("%d matched where it was", n)
		}
		all := []float64{0, 1, 2, 10, 11, 12}
		expectXs(t, "one in both", stays, all...)
		expectXs(t, "a pattern", pattern, all...)
		expectXs(t, "where it is now", comes, all...)
		if got := xs(volatile); len(got) > 3 || len(got) > 0 && got[0] < 10 {
			t.Errorf("a volatile one where it is now: %v", got)
		}
		for _, r := range []*Reader[pose]{stays, pattern} {
			if e := told[Unmatched](r.ep.events); len(e) > 0 {
				t.Errorf("one that matches all along was told %v", e)
			}
		}
		moveWriter(t, w, "p1")
		settle(10 * time.Second)
		expectXs(t, "where it is again, as of a late joiner", was, all...)
		expectXs(t, "one in both", stays)
		write(t, w, poseOf("r", 20))
		settle(time.Second)
		expectXs(t, "where it is again", was, 20)
		expectXs(t, "one in both", stays, 20)
		expectXs(t, "where it was", comes)
		silent(t, "the writer", w.ep.events)
	})
}

func TestWhatIsOnItsWayWhenAWriterMovesArrives(t *testing.T) {
	for _, q := range []QoS{keepAll, {History: KeepAll}} {
		t.Run(name(q.Reliability), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), in(q, "p1"))
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), in(q, "p1"))
				awaitReaders(t, w, 1)
				var want []float64
				for i := range 500 {
					write(t, w, poseOf("r", float64(i)))
					want = append(want, float64(i))
				}
				moveWriter(t, w, "p2")
				settle(10 * time.Second)
				expectXs(t, "the reader", r, want...)
				if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
					t.Errorf("told %v", lost)
				}
				if n := matchedPeers(r); n > 0 {
					t.Errorf("%d matched", n)
				}
			})
		})
	}
}

func TestAReaderThatMovesIsALateJoiner(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w1 := writerOf(t, topicOf[pose](t, a, "p"), in(local, "p1"))
		w2 := writerOf(t, topicOf[pose](t, a, "p"), in(local, "p2"))
		r := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p1"))
		volatile := readerOf(t, topicOf[pose](t, b, "p"), in(keepAll, "p1"))
		loose := readerOf(t, topicOf[pose](t, b, "p"), in(QoS{History: KeepAll}, "p1"))
		awaitReaders(t, w1, 3)
		write(t, w1, poseOf("r1", 1))
		write(t, w2, poseOf("r2", 2))
		settle(time.Second)
		for _, q := range []*Reader[pose]{r, volatile, loose} {
			expectXs(t, "in p1", q, 1)
			moveReader(t, q, "p2")
		}
		settle(time.Second)
		expectXs(t, "moved to p2", r, 2)
		expectXs(t, "a volatile one", volatile)
		write(t, w1, poseOf("r1", 3))
		write(t, w2, poseOf("r2", 4))
		settle(10 * time.Second)
		expectXs(t, "in p2", r, 4)
		expectXs(t, "a volatile one in p2", volatile, 4)
		expectXs(t, "a best-effort one in p2", loose, 4)
		for _, q := range []*Reader[pose]{r, volatile, loose} {
			moveReader(t, q, "p*")
		}
		settle(10 * time.Second)
		expectXs(t, "back in p1, and still in p2", r, 1, 3)
		write(t, w1, poseOf("r1", 5))
		write(t, w2, poseOf("r2", 6))
		settle(10 * time.Second)
		for _, q := range []*Reader[pose]{r, volatile, loose} {
			got := xs(q)
			if slices.Sort(got); !slices.Equal(got, []float64{5, 6}) {
				t.Errorf("in both: %v", got)
			}
			silent(t, "a reader", q.ep.events)
			if q.subscribed["+"] == nil || len(q.subscribed) != 1 || len(b.exchange.data.Filters()) != 1 {
				t.Errorf("subscribed to %v, %v", q.subscribed, b.exchange.data.Filters())
			}
		}
	})
}

// A writer's pattern reaches a reader in one of its partitions, which it may leave.
func TestNothingIsLostToOneThatMatchesBeforeAndAfter(t *testing.T) {
	for _, c := range []struct {
		name         string
		q            QoS
		writer       []string
		reader, then [][]string
	}{
		{"reader, reliable", keepAll, []string{"a"}, [][]string{{"a", "b"}, {"c", "a"}, {"?"}, {"a"}}, nil},
		{"reader, best effort", QoS{History: KeepAll}, []string{"a"}, [][]string{{"a", "b"}, {"c", "a"}, {"?"}, {"a"}}, nil},
		{"a writer's pattern", QoS{History: KeepAll}, []string{"a*"}, [][]string{{"a1"}, {"a2"}, {"a3"}, {"a1", "a2"}}, nil},
		{"writer", QoS{History: KeepAll}, []string{"a"}, [][]string{{"a", "b"}}, [][]string{{"a", "b"}, {"b"}, {"?"}, {"a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), in(c.q, c.writer...))
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), in(c.q, c.reader[0]...))
				awaitReaders(t, w, 1)
				n := 0
				var want []float64
				some := func() {
					for range 50 {
						write(t, w, poseOf("r", float64(n)))
						want = append(want, float64(n))
						n++
					}
				}
				for i := range 12 {
					some()
					if c.then != nil {
						moveWriter(t, w, c.then[i%len(c.then)]...)
					} else {
						moveReader(t, r, c.reader[i%len(c.reader)]...)
					}
					some()
					if i > 6 {
						settle(time.Duration(i) * 300 * time.Millisecond)
					}
				}
				settle(5 * time.Second)
				expectXs(t, "the reader", r, want...)
				silent(t, "the reader", r.ep.events)
				if e := told[Unmatched](w.ep.events); len(e) > 0 {
					t.Errorf("the writer was told %v", e)
				}
			})
		})
	}
}

// Whoever moves in whatever order gets what was written while it matched, and with a
// durability before it all that there was.
func TestMovesMeanWhatTheySay(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				some := [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"a*"}, {"[ab]"}, {"default", "b"}}
				a := d.join("a")
				w := writerOf(t, topicOf[pose](t, a, "p"), local)
				type one struct {
					r       *Reader[pose]
					want    []float64
					durable bool
					matched bool
				}
				var all []*one
				for i, q := range []QoS{local, keepAll, {History: KeepAll}, local} {
					r := readerOf(t, topicOf[pose](t, d.join(fmt.Sprint("r", i)), "p"), q)
					all = append(all, &one{r: r, durable: q.Durability >= TransientLocal, matched: true})
				}
				awaitReaders(t, w, len(all))
				var written []float64
				for range 60 {
					switch who := rnd.IntN(10); {
					case who < 4:
						write(t, w, poseOf("r", float64(len(written))))
						for _, o := range all {
							if o.matched {
								o.want = append(o.want, float64(len(written)))
							}
						}
						written = append(written, float64(len(written)))
						if rnd.IntN(2) == 0 {
							continue // something follows it at once
						}
					case who < 8:
						settle(3 * time.Second)
						moveReader(t, all[rnd.IntN(len(all))].r, some[rnd.IntN(len(some))]...)
					default:
						settle(3 * time.Second)
						moveWriter(t, w, some[rnd.IntN(len(some))]...)
					}
					settle(3 * time.Second)
					for _, o := range all {
						was := o.matched
						o.matched = partition.List(w.QoS().Partition).Meets(o.r.QoS().Partition)
						if o.matched && !was && o.durable {
							o.want = append(o.want, written...)
						}
						if n := matchedPeers(o.r); (n == 1) != o.matched {
							t.Fatalf("matches %v: writer %q, reader %q", n, w.QoS().Partition, o.r.QoS().Partition)
						}
					}
				}
				settle(10 * time.Second)
				for i, o := range all {
					expectXs(t, fmt.Sprint("reader ", i), o.r, o.want...)
					silent(t, "a reader", o.r.ep.events)
				}
				if !slices.ContainsFunc(all, func(o *one) bool { return len(o.want) > 0 }) {
					t.Error("nothing happened")
				}
			})
		})
	}
}

// A volatile reader goes and comes back before the writer has looked up.
func TestFlipsInARow(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), keepAll)
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), keepAll)
		awaitReaders(t, w, 1)
		n := 0
		for range 30 {
			for range 20 {
				write(t, w, poseOf("r", float64(n)))
				n++
			}
			moveReader(t, r, "elsewhere")
			moveReader(t, r)
		}
		settle(10 * time.Second)
		write(t, w, poseOf("r", -1))
		settle(10 * time.Second)
		got := xs(r)
		if len(got) == 0 || got[len(got)-1] != -1 || !slices.IsSorted(got[:len(got)-1]) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("got %v", got)
		}
		silent(t, "the reader", r.ep.events)
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Error(err)
		}
	})
}
