package pubsub

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"padme/pubsub/internal/cache"
)

// The scenarios of the public DDS interoperability suite (omg-dds/dds-rtps,
// test_suite.py) whose policies this package has, told in our own words. There,
// two programs of two vendors draw shapes; here one writer and one reader do, over
// a broker in virtual time. The names in brackets are the suite's.

// square is the suite's shape; color is the key.
type square struct {
	Color string `pubsub:"key" json:"color" msgpack:"color"`
	Size  int    `json:"size" msgpack:"size"`
}

// verdict is what the suite calls a return code.
type verdict string

const (
	flows           verdict = "data flows"
	incompatibleQoS verdict = "incompatible QoS on both sides"
	inconsistent    verdict = "inconsistent topic on both sides"
	unmatched       verdict = "not matched, nobody told"
)

func TestInteroperabilitySuiteMatching(t *testing.T) {
	reliable, bestEffort := QoS{Reliability: Reliable}, QoS{}
	durable := func(d Durability) QoS {
		q := QoS{Durability: d}
		if d > Volatile {
			q.Reliability = Reliable
		}
		return q
	}
	in := func(p ...string) QoS { return QoS{Partition: p} }
	type scenario struct {
		name               string
		offered, requested QoS
		writes, reads      Codec
		want               verdict
	}
	scenarios := []scenario{
		{"Test_DataRepresentation_0", bestEffort, bestEffort, Msgpack, Msgpack, flows},
		{"Test_DataRepresentation_1", bestEffort, bestEffort, Msgpack, JSON, inconsistent}, // DDS has a policy for it, we a topic
		{"Test_DataRepresentation_2", bestEffort, bestEffort, JSON, Msgpack, inconsistent},
		{"Test_DataRepresentation_3", bestEffort, bestEffort, JSON, JSON, flows},
		{"Test_Reliability_0", bestEffort, bestEffort, "", "", flows},
		{"Test_Reliability_1", bestEffort, reliable, "", "", incompatibleQoS},
		{"Test_Reliability_2", reliable, bestEffort, "", "", flows},
		{"Test_Reliability_3", reliable, reliable, "", "", flows},
		{"Test_Partition_0", in("p1"), in("p1"), "", "", flows},
		{"Test_Partition_1", in("p1"), in("p2"), "", "", unmatched},
		{"Test_Partition_2, first writer", in("p1"), in("p*"), "", "", flows},
		{"Test_Partition_2, second writer", in("x1"), in("p*"), "", "", unmatched},
	}
	for offered := Volatile; offered <= Transient; offered++ { // Persistent is refused: see TestUnsupportedPoliciesAreRefused
		for requested := Volatile; requested <= Transient; requested++ {
			want := flows
			if offered < requested {
				want = incompatibleQoS
			}
			scenarios = append(scenarios, scenario{fmt.Sprintf("Test_Durability_0 to 10: %d offered, %d requested", offered, requested), durable(offered), durable(requested), "", "", want})
		}
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, b := d.join("publisher"), d.join("subscriber")
				codec := func(c Codec) TopicOption {
					if c == "" {
						c = Msgpack
					}
					return WithCodec(c)
				}
				w := writerOf(t, topicOf[square](t, a, "Square", codec(s.writes)), s.offered)
				r := readerOf(t, topicOf[square](t, b, "Square", codec(s.reads)), s.requested)
				settle(time.Second)
				write(t, w, square{"BLUE", 1})
				settle(time.Second)
				if got := judge(w.ep.events, r.ep.events, len(r.Take(9))); got != s.want {
					t.Errorf("%s, want %s", got, s.want)
				}
			})
		})
	}
}

// judge says what has happened between two.
func judge(writer, reader *events, samples int) verdict {
	count := func(ev *events, of func(Event) bool) (n int) {
		for _, e := range ev.queue {
			if of(e) {
				n++
			}
		}
		return n
	}
	both := func(of func(Event) bool) bool { return count(writer, of) == 1 && count(reader, of) == 1 }
	whatever := func(Event) bool { return true }
	is := func(e Event, want verdict) bool {
		switch e.(type) {
		case IncompatibleQoS:
			return want == incompatibleQoS
		case InconsistentTopic:
			return want == inconsistent
		case Matched:
			return want == flows
		}
		return false
	}
	for _, v := range []verdict{flows, incompatibleQoS, inconsistent} {
		if both(func(e Event) bool { return is(e, v) }) && (samples == 1) == (v == flows) {
			return v
		}
	}
	if count(writer, whatever)+count(reader, whatever)+samples == 0 {
		return unmatched
	}
	return verdict(fmt.Sprintf("%d samples; the writer was told %+v, the reader %+v", samples, writer.queue, reader.queue))
}

// draw writes sizes from 1 on, one each 33 ms as the suite's publisher does.
func draw(t *testing.T, w *Writer[square], color string, from, n int) {
	t.Helper()
	for i := range n {
		write(t, w, square{color, from + i})
		settle(33 * time.Millisecond)
	}
}

func sizes(r *Reader[square]) (out []int) {
	for _, s := range r.Take(10_000) {
		if s.Info.Valid {
			out = append(out, s.Data.Size)
		}
	}
	return out
}

func consecutive(got []int, first, n int) error {
	if len(got) != n {
		return fmt.Errorf("%d samples, want %d", len(got), n)
	}
	for i, v := range got {
		if v != first+i {
			return fmt.Errorf("sample %d is %d", i, v)
		}
	}
	return nil
}

// [Test_Reliability_0, _4] Best effort is in order and without duplicates, also
// over a connection that breaks; reliable is without losses as well.
func TestInteroperabilitySuiteReliability(t *testing.T) {
	for _, reliability := range []Reliability{BestEffort, Reliable} {
		t.Run(fmt.Sprint(reliability), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a := d.join("publisher")
				b, fuse := d.joinBy("subscriber")
				q := QoS{Reliability: reliability, History: KeepAll}
				w, r := writerOf(t, topicOf[square](t, a, "Square"), q), readerOf(t, topicOf[square](t, b, "Square"), q)
				awaitReaders(t, w, 1)
				draw(t, w, "BLUE", 1, 200)
				fuse.blow(true)
				draw(t, w, "BLUE", 201, 30)
				fuse.blow(false)
				settle(30 * time.Second)
				draw(t, w, "BLUE", 231, 270)
				settle(10 * time.Second)
				got := sizes(r)
				if reliability == Reliable {
					if err := consecutive(got, 1, 500); err != nil {
						t.Error(err)
					}
					return
				}
				last := 0
				for _, v := range got {
					if v <= last {
						t.Fatalf("%d after %d", v, last)
					}
					last = v
				}
				if last != 500 || len(got) < 400 || len(got) > 470 {
					t.Errorf("%d samples, the last is %d", len(got), last)
				}
			})
		})
	}
}

// History is per instance, on both sides. (The suite has it with reads that are
// slower than writes.)
func TestInteroperabilitySuiteHistory(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("publisher"), d.join("subscriber")
		w := writerOf(t, topicOf[square](t, a, "Square"), QoS{Reliability: Reliable, History: KeepAll})
		last := readerOf(t, topicOf[square](t, b, "Square"), QoS{Reliability: Reliable, Depth: 3})
		all := readerOf(t, topicOf[square](t, b, "Square"), QoS{Reliability: Reliable, History: KeepAll})
		awaitReaders(t, w, 2)
		draw(t, w, "BLUE", 1, 20)
		draw(t, w, "RED", 101, 2)
		settle(time.Second)
		if got := fmt.Sprint(sizes(last)); got != "[18 19 20 101 102]" {
			t.Errorf("keep last 3: %s", got)
		}
		if n := len(sizes(all)); n != 22 {
			t.Errorf("keep all: %d", n)
		}
	})
}

// [Test_Cft_0] A reader that selects RED hears nothing of BLUE.
func TestInteroperabilitySuiteContentFilter(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b, c := d.join("blue"), d.join("red"), d.join("subscriber")
		q := QoS{Reliability: Reliable, History: KeepAll}
		blue, red := writerOf(t, topicOf[square](t, a, "Square"), q), writerOf(t, topicOf[square](t, b, "Square"), q)
		topic := topicOf[square](t, c, "Square")
		readers := map[string]*Reader[square]{
			"predicate":            newReader(t, topic, WithQoS(q), WithFilter(func(s square) bool { return s.Color == "RED" })),
			"expression":           newReader(t, topic, WithQoS(q), selected(t, "color = 'RED'")),
			"expression, unpinned": newReader(t, topic, WithQoS(q), selected(t, "NOT (color = 'BLUE')")),
			"instance":             newReader(t, topic, WithQoS(q), WithInstance(square{Color: "RED"})),
		}
		awaitReaders(t, blue, len(readers))
		awaitReaders(t, red, len(readers))
		for i := range 250 {
			draw(t, blue, "BLUE", 1000+i, 1)
			draw(t, red, "RED", 1+i, 1)
		}
		for _, w := range []*Writer[square]{blue, red} {
			if err := w.WaitAcked(testContext(t)); err != nil {
				t.Errorf("WaitAcked: %v", err)
			}
		}
		for what, r := range readers {
			if err := consecutive(sizes(r), 1, 250); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// [Test_Durability_16, _17] A volatile late joiner does not get the first sample,
// a transient-local one does; and so does a transient one, from the writer while
// it lives.
func TestInteroperabilitySuiteDurability(t *testing.T) {
	for _, durability := range []Durability{Volatile, TransientLocal, Transient} {
		t.Run(fmt.Sprint(durability), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, b := d.join("publisher"), d.join("subscriber")
				q := QoS{Reliability: Reliable, History: KeepAll, Durability: durability}
				w := writerOf(t, topicOf[square](t, a, "Square"), q)
				draw(t, w, "BLUE", 1, 30)
				r := readerOf(t, topicOf[square](t, b, "Square"), q)
				awaitReaders(t, w, 1)
				draw(t, w, "BLUE", 31, 30)
				settle(time.Second)
				first, n := 1, 60
				if durability == Volatile {
					first, n = 31, 30
				}
				if err := consecutive(sizes(r), first, n); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Nothing is dropped silently: with keep-all at both ends the writer blocks when
// the reader does not take, and what both say they have adds up.
func TestInteroperabilitySuiteResourceLimits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("publisher"), d.join("subscriber")
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 8, MaxBlocking: 10 * time.Second}
		w, r := writerOf(t, topicOf[square](t, a, "Square"), q), readerOf(t, topicOf[square](t, b, "Square"), q)
		awaitReaders(t, w, 1)
		written := 0
		began := time.Now()
		var err error
		for ; err == nil && written < 1000; written++ {
			err = w.Write(testContext(t), square{"BLUE", written + 1})
		}
		written-- // the last one was not
		if !errors.Is(err, ErrTimeout) || time.Since(began) < q.MaxBlocking || written != 16 {
			t.Errorf("%d written in %v, then %v; there is room for 8 and 8", written, time.Since(began), err)
		}
		ctx := testContext(t)
		done := make(chan error, 1)
		go func() { done <- w.WaitAcked(ctx) }()
		settle(time.Second)
		select {
		case err := <-done:
			t.Errorf("WaitAcked: %v, although the reader has no room for half of it", err)
		default:
		}
		var got []int
		for _, s := range collect(t, r, written) {
			got = append(got, s.Data.Size)
		}
		if err := consecutive(got, 1, written); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("WaitAcked: %v", err)
		}
		silent(t, "the reader", r.ep.events)
	})
}

// A reader that knows MaxInstances says which samples it turns away.
func TestSamplesBeyondTheLimitsAreToldAsRejected(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		w := writerOf(t, topicOf[square](t, a, "Square"), QoS{Reliability: Reliable, History: KeepAll})
		r := readerOf(t, topicOf[square](t, a, "Square"), QoS{Reliability: Reliable, MaxInstances: 3})
		few := readerOf(t, topicOf[square](t, a, "Square"), QoS{Reliability: Reliable, MaxSamples: 2})
		awaitReaders(t, w, 2)
		for i := range 5 {
			draw(t, w, fmt.Sprint("color ", i), i, 1)
		}
		settle(time.Second)
		for what, c := range map[string]struct {
			r    *Reader[square]
			held int
			err  error
		}{"MaxInstances": {r, 3, cache.ErrInstances}, "MaxSamples": {few, 2, cache.ErrSamples}} {
			rejected := 0
			for _, e := range drain(c.r.ep.events) {
				if s, ok := e.(SampleRejected); ok && errors.Is(s.Err, c.err) {
					rejected++
				}
			}
			if n := len(c.r.Take(9)); n != c.held || n+rejected != 5 {
				t.Errorf("%s: %d given and %d told rejected, of 5", what, n, rejected)
			}
		}
	})
}
