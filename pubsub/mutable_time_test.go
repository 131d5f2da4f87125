package pubsub

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func adaptWriter(t *testing.T, w *Writer[pose], set func(q *QoS)) {
	t.Helper()
	q := w.QoS()
	set(&q)
	if err := w.SetQoS(q); err != nil {
		t.Fatal(err)
	}
	settle(0)
}

func adaptReader(t *testing.T, r *Reader[pose], set func(q *QoS)) {
	t.Helper()
	q := r.QoS()
	set(&q)
	if err := r.SetQoS(testContext(t), q); err != nil {
		t.Fatal(err)
	}
	settle(0)
}

func every(d time.Duration) func(*QoS) { return func(q *QoS) { q.Deadline = d } }

// DEADLINE is offered and requested: a change of either side can end a match or begin one.
func TestAChangeOfDeadlineIsMatchedAnew(t *testing.T) {
	for _, side := range []string{"writer", "reader"} {
		t.Run(side, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				q := local
				q.Deadline = time.Hour
				w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), q)
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
				awaitReaders(t, w, 1)
				change := func(offered, requested time.Duration) {
					if side == "writer" {
						adaptWriter(t, w, every(offered))
					} else {
						adaptReader(t, r, every(requested))
					}
					settle(10 * time.Second)
				}
				expect := func(when string, ends, begins int, policies ...IncompatibleQoS) {
					t.Helper()
					for peer, ev := range map[GUID]*events{r.GUID(): w.ep.events, w.GUID(): r.ep.events} {
						all := drain(ev)
						count := map[string]int{}
						var why []IncompatibleQoS
						for _, e := range all {
							count[reflect.TypeOf(e).Name()]++
							if e, ok := e.(IncompatibleQoS); ok {
								why = append(why, e)
							}
						}
						for i := range policies {
							policies[i].Peer = peer
						}
						if count["Unmatched"] != ends || count["Matched"] != begins || !reflect.DeepEqual(why, policies) || count["SampleLost"] > 0 {
							t.Errorf("%s, with %v as the peer: %#v", when, peer, all)
						}
					}
				}
				expect("at first", 0, 1)
				write(t, w, poseOf("r", 1))
				settle(time.Second)
				change(30*time.Minute, 2*time.Hour)
				expect("more is offered than requested", 0, 0)
				write(t, w, poseOf("r", 2))
				settle(time.Second)
				change(3*time.Hour, 20*time.Minute)
				expect("less", 1, 0, IncompatibleQoS{Policy: "DEADLINE"})
				write(t, w, poseOf("r", 3))
				change(4*time.Hour, 10*time.Minute)
				expect("less still", 0, 0)
				expectXs(t, "while they match", r, 1, 2)
				change(time.Hour, time.Hour)
				expect("enough", 0, 1)
				write(t, w, poseOf("r", 4))
				settle(time.Second)
				expectXs(t, "as of a late joiner", r, 1, 2, 3, 4)
				change(0, time.Minute)
				expect("nothing is offered", 1, 0, IncompatibleQoS{Policy: "DEADLINE"})
			})
		})
	}
}

func TestTheNewDeadlineIsWatched(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), QoS{Deadline: time.Second})
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{})
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		settle(2500 * time.Millisecond)
		told[RequestedDeadlineMissed](r.ep.events)
		if got := told[OfferedDeadlineMissed](w.ep.events); len(got) != 2 {
			t.Errorf("every second: %v", got)
		}
		adaptReader(t, r, every(10*time.Second))
		adaptWriter(t, w, every(5*time.Second))
		settle(11 * time.Second)
		if got := told[OfferedDeadlineMissed](w.ep.events); !reflect.DeepEqual(got, []OfferedDeadlineMissed{{"r", 3}, {"r", 4}}) {
			t.Errorf("every five seconds: %v", got)
		}
		if got := told[RequestedDeadlineMissed](r.ep.events); !reflect.DeepEqual(got, []RequestedDeadlineMissed{{"r", 1}}) {
			t.Errorf("every ten seconds, from the change on: %v", got)
		}
		adaptWriter(t, w, every(100*time.Millisecond))
		settle(50 * time.Millisecond)
		if got := told[OfferedDeadlineMissed](w.ep.events); len(got) > 0 {
			t.Errorf("before it can have been missed: %v", got)
		}
		adaptReader(t, r, every(0))
		adaptWriter(t, w, every(0))
		settle(time.Minute)
		if got := append(drain(w.ep.events), drain(r.ep.events)...); len(got) > 0 {
			t.Errorf("none: %v", got)
		}
	})
}

func TestALifespanIsThatOfWhatIsWrittenFromThenOn(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), local)
		lifespan := func(d time.Duration) {
			t.Helper()
			adaptWriter(t, w, func(q *QoS) { q.Lifespan = d })
		}
		here := readerOf(t, topicOf[pose](t, b, "p"), local)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("for ever", 1))
		lifespan(time.Minute)
		write(t, w, poseOf("a minute", 2))
		lifespan(10 * time.Second)
		write(t, w, poseOf("ten seconds", 3))
		lifespan(0)
		write(t, w, poseOf("for ever", 4))
		lifespan(20 * time.Second)
		write(t, w, poseOf("twenty seconds", 5))
		for _, c := range []struct {
			wait time.Duration
			want []float64
		}{
			{9 * time.Second, []float64{1, 2, 3, 4, 5}},
			{2 * time.Second, []float64{1, 2, 4, 5}},
			{10 * time.Second, []float64{1, 2, 4}},
			{40 * time.Second, []float64{1, 4}},
		} {
			settle(c.wait)
			late := readerOf(t, topicOf[pose](t, b, "p"), local)
			settle(0)
			expectXs(t, "a late joiner", late, c.want...)
			if got := here.Read(9); len(got) != len(c.want) {
				t.Errorf("a reader that was there has %d samples, want %v", len(got), c.want)
			}
			late.Close()
		}
	})
}

func TestATimeBasedFilterChanges(t *testing.T) {
	for _, reliability := range []Reliability{BestEffort, Reliable} {
		t.Run(name(reliability), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				q := QoS{Reliability: reliability, History: KeepAll}
				w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), q)
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
				awaitReaders(t, w, 1)
				x := 0.0
				write10 := func() { // in a second
					for range 10 {
						write(t, w, poseOf("r", x))
						x++
						settle(100 * time.Millisecond)
					}
				}
				filter := func(d time.Duration) {
					t.Helper()
					adaptReader(t, r, func(q *QoS) { q.TimeBasedFilter = d })
				}
				expect := func(what string, reliable, loose []float64) {
					t.Helper()
					want := reliable
					if reliability == BestEffort { // what comes too soon is dropped
						want = loose
					}
					if got := xs(r); !slices.Equal(got, want) {
						t.Errorf("%s: got %v, want %v", what, got, want)
					}
				}
				write10()
				expectXs(t, "without", r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
				filter(time.Minute)
				write10()
				expectXs(t, "a minute", r, 10)
				filter(430 * time.Millisecond)
				settle(0)
				expect("a second after one that was to wait for a minute", []float64{19}, nil)
				settle(time.Second)
				write10()
				settle(time.Second)
				expect("430 ms", []float64{20, 24, 28, 29}, []float64{20, 25})
				write10()
				xs(r)
				filter(0)
				expect("what has waited", []float64{39}, nil)
				write10()
				expectXs(t, "without again", r, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49)
				silent(t, "the reader", r.ep.events)
			})
		})
	}
}
