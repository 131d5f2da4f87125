package pubsub

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestADeadlineIsWatchedForEachInstanceOnBothSides(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a, b := v.join("a"), v.join("b")
		q := QoS{Deadline: 2 * time.Second}
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 1)
		const odd = "r /2" // a key that its topic level encodes
		pass(time.Minute)  // nothing is due before the first sample
		write(t, w, pose{Robot: "r1"})
		write(t, w, pose{Robot: odd})
		for range 2 {
			pass(1500 * time.Millisecond)
			write(t, w, pose{Robot: "r1"})
		}
		pass(0) // 3 s after the first samples
		offered, requested := told[OfferedDeadlineMissed](w.ep.events), told[RequestedDeadlineMissed](r.ep.events)
		if !reflect.DeepEqual(offered, []OfferedDeadlineMissed{{odd, 1}}) || !reflect.DeepEqual(requested, []RequestedDeadlineMissed{{odd, 1}}) {
			t.Errorf("after one period: offered %v, requested %v", offered, requested)
		}
		pass(4 * time.Second) // r1 at 5 and 7, r2 at 4 and 6
		offered, requested = told[OfferedDeadlineMissed](w.ep.events), told[RequestedDeadlineMissed](r.ep.events)
		if want := []OfferedDeadlineMissed{{odd, 2}, {"r1", 3}, {odd, 4}, {"r1", 5}}; !reflect.DeepEqual(offered, want) {
			t.Errorf("offered %v, want %v", offered, want)
		}
		if want := []RequestedDeadlineMissed{{odd, 2}, {"r1", 3}, {odd, 4}, {"r1", 5}}; !reflect.DeepEqual(requested, want) {
			t.Errorf("requested %v, want %v", requested, want)
		}
		if n := statusCount(a, "offered_deadline_missed"); n != 5 {
			t.Errorf("the writer's participant counted %v", n)
		}
		if n := statusCount(b, "requested_deadline_missed"); n != 5 {
			t.Errorf("the reader's participant counted %v", n)
		}
	})
}

// statusCount returns what a participant counted of one kind of event.
func statusCount(p *Participant, event string) uint64 {
	return p.counters.statuses[slices.Index(statusNames[:], event)].Load()
}

// What the application has ended is not missed, and a deadline ends with its
// entity.
func TestADeadlineEndsWithItsInstance(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Writer[pose]) error{
		"dispose":    func(t *testing.T, w *Writer[pose]) error { return w.Dispose(testContext(t), pose{Robot: "r1"}) },
		"unregister": func(t *testing.T, w *Writer[pose]) error { return w.Unregister(testContext(t), pose{Robot: "r1"}) },
		"close":      func(t *testing.T, w *Writer[pose]) error { return w.Close(testContext(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, v *world) {
				q := QoS{Deadline: time.Second, Reliability: Reliable}
				w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
				r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
				awaitReaders(t, w, 1)
				write(t, w, pose{Robot: "r1"})
				pass(900 * time.Millisecond)
				if err := end(t, w); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if offered := told[OfferedDeadlineMissed](w.ep.events); len(offered) > 0 {
					t.Errorf("offered: %v", offered)
				}
				if requested := told[RequestedDeadlineMissed](r.ep.events); len(requested) > 0 {
					t.Errorf("requested: %v", requested)
				}
				if name == "close" {
					return
				}
				write(t, w, pose{Robot: "r1"}) // it is back, and so is its deadline
				pass(1100 * time.Millisecond)
				if offered, requested := told[OfferedDeadlineMissed](w.ep.events), told[RequestedDeadlineMissed](r.ep.events); len(offered) != 1 || len(requested) != 1 {
					t.Errorf("after it came back: offered %v, requested %v", offered, requested)
				}
			})
		})
	}
}

// A reader may be laxer than its writer, never stricter; it then keeps its own
// deadline.
func TestAReaderKeepsItsOwnDeadline(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Deadline: time.Second})
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), QoS{Deadline: 3 * time.Second})
		awaitReaders(t, w, 1)
		write(t, w, pose{Robot: "r1"})
		pass(3500 * time.Millisecond)
		if n := len(told[OfferedDeadlineMissed](w.ep.events)); n != 3 {
			t.Errorf("the writer missed %d", n)
		}
		if n := len(told[RequestedDeadlineMissed](r.ep.events)); n != 1 {
			t.Errorf("the reader missed %d", n)
		}
	})
}

func TestManyInstancesAreWatched(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		const n = 500
		q := QoS{Deadline: time.Second, History: KeepAll, MaxSamples: 2 * n}
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		for i := range n {
			write(t, w, pose{Robot: fmt.Sprint(i)})
		}
		pass(1500 * time.Millisecond)
		offered, requested := told[OfferedDeadlineMissed](w.ep.events), told[RequestedDeadlineMissed](r.ep.events)
		if len(offered) == 0 || offered[len(offered)-1].Total != n || len(requested) == 0 || requested[len(requested)-1].Total != n {
			t.Errorf("offered %v, requested %v", offered, requested)
		}
	})
}

func TestEventsAreCountedInTheMetrics(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		reg := prometheus.NewRegistry()
		p := join(t, "", "a", WithDialer(v.b.Dial), WithMetrics(reg))
		w := writerOf(t, topicOf[int](t, p, "n"), QoS{Deadline: time.Second})
		r := readerOf(t, topicOf[int](t, p, "n"), QoS{Deadline: time.Second})
		awaitReaders(t, w, 1)
		write(t, w, 1)
		pass(3500 * time.Millisecond)
		r.Close()
		pass(0)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if f.GetName() == "pubsub_status_total" && l.GetName() == "event" && m.GetCounter().GetValue() > 0 {
						got[l.GetValue()] = m.GetCounter().GetValue()
					}
				}
			}
		}
		want := map[string]float64{"matched": 2, "unmatched": 1, "liveliness_changed": 1, "offered_deadline_missed": 3, "requested_deadline_missed": 3}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}
