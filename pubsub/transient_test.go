package pubsub

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
)

var transient = QoS{Reliability: Reliable, Durability: Transient, History: KeepAll}

func transientDepth(n int) QoS {
	return QoS{Reliability: Reliable, Durability: Transient, Depth: n}
}

func TestTransientSamplesOutliveTheirWriter(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(name("crash ", crash), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, fuse := d.joinBy("a")
				b := d.join("b")
				w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(3))
				other := writerOf(t, topicOf[pose](t, b, "p"), transientDepth(1))
				local := writerOf(t, topicOf[pose](t, a, "p"), QoS{Reliability: Reliable, Durability: TransientLocal})
				for i := range 5 {
					write(t, w, poseOf("r1", float64(i)))
					write(t, w, poseOf("r2", float64(10+i)))
					settle(time.Millisecond)
				}
				write(t, other, poseOf("r1", 20))
				write(t, local, poseOf("r1", 30))
				settle(time.Second)
				early := readerOf(t, topicOf[pose](t, b, "p"), transient)
				settle(time.Second)
				if n := len(early.Take(99)); n != 6+1 {
					t.Errorf("%d samples of live writers, want three of each instance of one and one of the other", n)
				}
				if crash {
					fuse.blow(true)
				} else if err := w.Close(testContext(t)); err != nil {
					t.Fatal(err)
				} else if err := local.Close(testContext(t)); err != nil {
					t.Fatal(err)
				}
				if err := other.Close(testContext(t)); err != nil {
					t.Fatal(err)
				}
				settle(time.Minute)
				for _, s := range early.Take(99) {
					if s.Info.Valid {
						t.Errorf("twice: %+v", s)
					}
				}
				late := readerOf(t, topicOf[pose](t, b, "p"), transient)
				again := readerOf(t, topicOf[pose](t, b, "p"), transient) // makes the broker repeat itself
				localLate := readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, Durability: TransientLocal})
				volatile := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
				settle(time.Second)
				got := late.Take(99)
				for _, s := range got {
					if !s.Info.Valid || s.Info.State != NoWriters {
						t.Errorf("%+v", s.Info)
					}
				}
				if len(got) == 3 && (got[2].Info.Writer != other.GUID() || got[0].Info.Writer != w.GUID() || got[0].Info.Sequence != 9) {
					t.Errorf("writers %+v", got)
				}
				var values []float64
				for _, s := range got {
					values = append(values, s.Data.X)
				}
				if !reflect.DeepEqual(values, []float64{4, 14, 20}) {
					t.Errorf("a late joiner got %v, want the last of each instance and writer in the order of writing", values)
				}
				expectXs(t, "another late joiner", again, 4, 14, 20)
				expectXs(t, "a transient-local one", localLate)
				expectXs(t, "a volatile one", volatile)
				expectXs(t, "one that was there", early)
				silent(t, "a late joiner", late.ep.events)
			})
		})
	}
}

func TestWhatIsRetainedComesBeforeWhatIsLive(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b, c := d.join("a"), d.join("b"), d.join("c")
		dead := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		write(t, dead, poseOf("r", 1))
		closeNow(t, a)
		live := writerOf(t, topicOf[pose](t, b, "p"), transientDepth(3))
		for i := range 4 {
			write(t, live, poseOf("r", float64(i+2)))
		}
		r := readerOf(t, topicOf[pose](t, c, "p"), transient)
		settle(time.Second)
		write(t, live, poseOf("r", 6))
		settle(time.Second)
		expectXs(t, "history", r, 1, 3, 4, 5, 6)
		silent(t, "the reader", r.ep.events)
	})
}

func TestADisposedInstanceIsNotRetained(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		write(t, w, poseOf("gone", 1))
		write(t, w, poseOf("left", 2))
		settle(time.Millisecond)
		write(t, w, poseOf("back", 3))
		ctx := testContext(t)
		for _, err := range []error{w.Dispose(ctx, poseOf("gone", 0)), w.Unregister(ctx, poseOf("left", 0)), w.Dispose(ctx, poseOf("back", 0)), w.Write(ctx, poseOf("back", 4))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		settle(time.Second)
		closeNow(t, a)
		r := readerOf(t, topicOf[pose](t, b, "p"), transient)
		settle(time.Second)
		expectXs(t, "a late joiner", r, 2, 4)
	})
}

// A writer that dies while a reader is away leaves its last value to it.
func TestAReaderThatWasAwayGetsTheLastValue(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		b, fuse := d.joinBy("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		r := readerOf(t, topicOf[pose](t, b, "p"), transient)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		write(t, w, poseOf("s", 2))
		settle(time.Second)
		expectXs(t, "while it is there", r, 1, 2)
		fuse.blow(true)
		settle(time.Second)
		for i := range 3 {
			write(t, w, poseOf("r", float64(3+i)))
		}
		settle(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second/2)
		defer cancel()
		if err := a.Close(ctx); !errors.Is(err, ErrUndelivered) {
			t.Errorf("Close while a reader is away: %v", err)
		}
		fuse.blow(false)
		settle(time.Minute)
		expectXs(t, "back again", r, 5)
		fuse.blow(true)
		fuse.blow(false)
		settle(time.Minute)
		expectXs(t, "nothing twice", r)
	})
}

// A reader that was away, and is back a moment before a writer that was away, too, misses
// nothing of it. If the writer comes later, the reader gets the value that the broker has
// retained, and hears of those before it.
func TestAReaderThatWasAwayMissesNothingOfAWriterThatIsBack(t *testing.T) {
	for away, want := range map[time.Duration][]float64{time.Second: {2, 3, 4, 5}, 20 * time.Second: {4, 5}, time.Minute: {4, 5}} {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, ofWriter := d.joinBy("a")
			b, ofReader := d.joinBy("b")
			w := writerOf(t, topicOf[pose](t, a, "p"), transient)
			r := readerOf(t, topicOf[pose](t, b, "p"), transient)
			awaitReaders(t, w, 1)
			write(t, w, poseOf("r", 1))
			settle(time.Second)
			expectXs(t, "while both are there", r, 1)
			ofReader.blow(true)
			settle(time.Second)
			for i := range 3 {
				write(t, w, poseOf("r", float64(2+i)))
			}
			settle(time.Second)
			ofWriter.blow(true)
			settle(time.Second)
			ofReader.blow(false)
			settle(away)
			ofWriter.blow(false)
			settle(10 * time.Second)
			write(t, w, poseOf("r", 5))
			settle(time.Second)
			expectXs(t, "when it is back after "+away.String(), r, want...)
			lost := 4 - len(want)
			for _, l := range told[SampleLost](r.ep.events) {
				lost -= int(l.Count)
			}
			if lost != 0 {
				t.Errorf("back after %v: %d lost samples were not told", away, lost)
			}
			if err := w.WaitAcked(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A broker that lost its memory is told again, of disposals as well.
func TestRetainedSamplesComeBackAfterABrokerRestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, fuse := d.joinBy("a")
		b := d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		write(t, w, poseOf("r", 1))
		write(t, w, poseOf("gone", 2))
		settle(time.Second)
		fuse.blow(true)
		settle(time.Second)
		if err := w.Dispose(testContext(t), poseOf("gone", 0)); err != nil {
			t.Fatal(err)
		}
		write(t, w, poseOf("s", 3)) // while offline
		fuse.blow(false)
		settle(time.Minute)
		check := func(what string) {
			t.Helper()
			r := readerOf(t, topicOf[pose](t, b, "p"), transient)
			settle(time.Second)
			expectXs(t, what, r, 1, 3)
			r.Close()
		}
		check("the writer was offline")
		d.restart()
		settle(time.Minute)
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute)
		check("the broker forgot everything")
	})
}

// A cache that is full takes the rest once there is room.
func TestRetainedSamplesWaitForRoom(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		var want []float64
		for i := range 10 {
			write(t, w, poseOf(name("r", i), float64(i)))
			want = append(want, float64(i))
			settle(time.Millisecond)
		}
		closeNow(t, a)
		q := transient
		q.MaxSamples = 4
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		settle(time.Second)
		var got []float64
		for _, s := range collect(t, r, 10) {
			got = append(got, s.Data.X)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

func TestDurabilityIsOfferedAndRequested(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		offers := []QoS{{Reliability: Reliable}, {Reliability: Reliable, Durability: TransientLocal}, {Reliability: Reliable, Durability: Transient}}
		for i, offered := range offers {
			for j, requested := range offers {
				policy := ""
				if i < j {
					policy = "DURABILITY"
				}
				expectIncompatible(t, a, offered, requested, policy)
			}
		}
	})
}
