package pubsub

import (
	"slices"
	"testing"
	"time"
)

// crash has the broker die at once, so that no participant hears of another's end, and another
// one come in its place that knows what is retained only if it remembers. No participant is
// connected to that before reconnect is called.
func (d *domain) crash(remembers bool, fuses ...*fuse) {
	d.t.Helper()
	kept := d.retained()
	for _, f := range fuses {
		f.deaf.Store(true)
	}
	for _, f := range fuses {
		f.blow(true)
		f.deaf.Store(false)
	}
	d.restart()
	if remembers {
		d.retain(kept)
	}
}

// retained is what the broker keeps.
func (d *domain) retained() (kept []PlainMessage) {
	d.t.Helper()
	c := connectPlain(d.t, "", "keeper", WithDialer(d.dial))
	stop, err := c.Subscribe(testContext(d.t), "padme/v1/default/#", func(m PlainMessage) {
		if m.Retained {
			kept = append(kept, m)
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
	settle(time.Second)
	stop()
	if err := c.Close(testContext(d.t)); err != nil {
		d.t.Fatal(err)
	}
	return kept
}

// retain has the broker keep something.
func (d *domain) retain(kept []PlainMessage) {
	d.t.Helper()
	c := connectPlain(d.t, "", "keeper", WithDialer(d.dial))
	for _, m := range kept {
		if err := c.Publish(testContext(d.t), m.Topic, m.Payload, 1, true); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := c.Flush(testContext(d.t)); err != nil {
		d.t.Fatal(err)
	}
}

// untold reports events that an endpoint was told although nothing has happened to those
// that it matches.
func untold(t *testing.T, whom string, ev *events) {
	t.Helper()
	if got := drain(ev); len(got) > 0 {
		t.Errorf("%s was told %#v", whom, got)
	}
}

// outage is how a broker comes back from a crash, and who comes back to it.
type outage struct {
	remembers      bool
	lasts          time.Duration
	writer, reader time.Duration // after that
}

func outages(t *testing.T, f func(t *testing.T, o outage)) {
	for _, remembers := range []bool{false, true} {
		for name, o := range map[string]outage{
			"both":       {lasts: time.Second},
			"the writer": {lasts: time.Second, reader: 3 * time.Second},
			"the reader": {lasts: time.Second, writer: 3 * time.Second},
			"late":       {lasts: 20 * time.Second, writer: time.Second},
		} {
			o.remembers = remembers
			t.Run(map[bool]string{false: "forgets/", true: "remembers/"}[remembers]+name, func(t *testing.T) { f(t, o) })
		}
	}
}

// A broker that crashes kills no writer and no reader: none is told that another is gone, or
// forgets what another lacks.
func TestABrokerThatCrashesKillsNobody(t *testing.T) {
	outages(t, func(t *testing.T, o outage) {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, ofWriter := d.joinBy("a")
			b, ofReader := d.joinBy("b")
			w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
			r := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
			awaitReaders(t, w, 1)
			write(t, w, poseOf("r", 1))
			settle(time.Second)
			drain(w.ep.events)
			drain(r.ep.events)
			d.crash(o.remembers, ofWriter, ofReader)
			write(t, w, poseOf("r", 2))
			settle(o.lasts)
			back := func(f *fuse, after time.Duration) { time.AfterFunc(after, func() { f.blow(false) }) }
			back(ofWriter, o.writer)
			back(ofReader, o.reader)
			for range 600 { // a minute
				settle(100 * time.Millisecond)
				matches(t, "the writer", w, 1)
				matches(t, "the reader", r, 1)
				awaitReaders(t, w, 1)
			}
			write(t, w, poseOf("r", 3))
			settle(time.Second)
			untold(t, "the writer", w.ep.events)
			untold(t, "the reader", r.ep.events)
			var got []float64
			for _, s := range r.Take(9) {
				if !s.Info.Valid || s.Info.NoWritersGeneration > 0 || s.Info.InstanceState != Alive {
					t.Errorf("took %+v", s)
				}
				got = append(got, s.Data.X)
			}
			if !slices.Equal(got, []float64{1, 2, 3}) {
				t.Errorf("took %v", got)
			}
		})
	})
}

// What was closed while the broker was away has ended, and nothing else has.
func TestWhatIsClosedWhileTheBrokerIsAwayHasEnded(t *testing.T) {
	outages(t, func(t *testing.T, o outage) {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, ofWriter := d.joinBy("a")
			b, ofReader := d.joinBy("b")
			few := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 5}
			var ws []*Writer[pose]
			var rs []*Reader[pose]
			for _, topic := range []string{"stays", "writer", "other writer", "reader"} {
				rs = append(rs, readerOf(t, topicOf[pose](t, b, topic), few))
				ws = append(ws, writerOf(t, topicOf[pose](t, a, topic), few))
				awaitReaders(t, ws[len(ws)-1], 1)
			}
			settle(time.Second)
			for i := range ws {
				drain(ws[i].ep.events)
				drain(rs[i].ep.events)
			}
			d.crash(o.remembers, ofWriter, ofReader)
			for _, w := range ws[1:3] {
				if err := w.Close(testContext(t)); err != nil {
					t.Error(err)
				}
			}
			rs[3].Close()
			settle(o.lasts)
			time.AfterFunc(o.writer, func() { ofWriter.blow(false) })
			time.AfterFunc(o.reader, func() { ofReader.blow(false) })
			settle(o.writer + o.reader + 10*time.Second)
			matches(t, "a reader whose writer was closed", rs[1], 0)
			matches(t, "another one", rs[2], 0)
			matches(t, "a writer whose reader was closed", ws[3], 0)
			for i := range 20 {
				write(t, ws[3], poseOf("r", float64(i)))
			}
			untold(t, "a writer that stays", ws[0].ep.events)
			untold(t, "a reader that stays", rs[0].ep.events)
			if got := lives(rs[1]); !slices.Equal(got, []bool{false}) {
				t.Errorf("the writer that was closed: alive %v", got)
			}
		})
	})
}

// A process that ends while the broker is away is dead, and another one under its id is not
// the same.
func TestAProcessThatEndsWhileTheBrokerIsAwayIsDead(t *testing.T) {
	outages(t, func(t *testing.T, o outage) {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, ofWriter := d.joinBy("a")
			b, ofReader := d.joinBy("b")
			w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
			r := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
			awaitReaders(t, w, 1)
			write(t, w, poseOf("r", 1))
			settle(time.Second)
			drain(r.ep.events)
			d.crash(o.remembers, ofWriter, ofReader)
			closeNow(t, a)
			settle(o.lasts)
			ofReader.blow(false)
			settle(time.Minute)
			matches(t, "after a minute", r, 0)
			again := writerOf(t, topicOf[pose](t, d.join("a"), "p"), keepAll)
			write(t, again, poseOf("r", 2))
			settle(time.Second)
			if got := lives(r); !slices.Equal(got, []bool{false, true}) {
				t.Errorf("alive %v", got)
			}
			got := r.Take(9)
			if len(got) != 3 || got[1].Info.Valid || got[2].Info.NoWritersGeneration != 1 {
				t.Errorf("took %+v", got)
			}
		})
	})
}

// What one has said while the other was away with the broker is said again: a writer is as
// alive as it has said.
func TestAnAssertionOutlivesABrokerThatCrashes(t *testing.T) {
	outages(t, func(t *testing.T, o outage) {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, ofWriter := d.joinBy("a")
			b, ofReader := d.joinBy("b")
			q := QoS{Liveliness: ManualByTopic, LivelinessLease: time.Minute}
			w := writerOf(t, topicOf[pose](t, a, "p"), q)
			r := readerOf(t, topicOf[pose](t, b, "p"), q)
			awaitReaders(t, w, 1)
			settle(20 * time.Second)
			drain(r.ep.events)
			d.crash(o.remembers, ofWriter, ofReader)
			if err := w.AssertLiveliness(); err != nil {
				t.Fatal(err)
			}
			asserted := time.Now()
			settle(o.lasts)
			time.AfterFunc(o.writer, func() { ofWriter.blow(false) })
			time.AfterFunc(o.reader, func() { ofReader.blow(false) })
			settle(time.Until(asserted.Add(59 * time.Second)))
			untold(t, "the reader within the lease", r.ep.events)
			settle(2 * time.Second)
			if got := lives(r); !slices.Equal(got, []bool{false}) {
				t.Errorf("after the lease: alive %v", got)
			}
		})
	})
}

// A participant is no stranger to itself.
func TestABrokerThatCrashesDoesNotPartAParticipantFromItself(t *testing.T) {
	outages(t, func(t *testing.T, o outage) {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, fuse := d.joinBy("a")
			w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
			r := readerOf(t, topicOf[pose](t, a, "p"), keepAll)
			awaitReaders(t, w, 1)
			settle(time.Second)
			drain(w.ep.events)
			drain(r.ep.events)
			d.crash(o.remembers, fuse)
			write(t, w, poseOf("r", 1))
			settle(o.lasts)
			fuse.blow(false)
			settle(time.Minute)
			untold(t, "the writer", w.ep.events)
			untold(t, "the reader", r.ep.events)
			expectXs(t, "written while away", r, 1)
		})
	})
}
