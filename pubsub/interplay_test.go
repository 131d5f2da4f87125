package pubsub

import (
	"context"
	"reflect"
	"testing"
	"time"
)

// Policies that are right alone, together.

// What a filter by time gives late has a lifespan as well, and must not keep a
// writer waiting that has nobody else to make room.
func TestASampleThatWaitedForItsTimeExpires(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		topic := topicOf[pose](t, v.join("a"), "p")
		long := writerOf(t, topic, keepAll)
		short := writerOf(t, topic, QoS{Reliability: Reliable, History: KeepAll, Lifespan: 5 * time.Second})
		q := keepAll
		q.TimeBasedFilter = time.Second
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, long, 1)
		awaitReaders(t, short, 1)
		write(t, long, poseOf("r", 1))
		pass(10 * time.Millisecond)
		xs(r)
		write(t, short, poseOf("r", 2))
		pass(time.Minute)
		if n := r.recv.Held(); n != 0 {
			t.Errorf("%d samples are kept beyond their lifespan", n)
		}
	})
}

// That one of two writers leaves an instance changes nothing about what the other
// one wrote.
func TestAnUnregistrationLeavesWhatWaitsForItsTime(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		stays := writerOf(t, topicOf[pose](t, v.join("a"), "p"), keepAll)
		leaves := writerOf(t, topicOf[pose](t, v.join("b"), "p"), keepAll)
		q := keepAll
		q.TimeBasedFilter = time.Second
		r := readerOf(t, topicOf[pose](t, v.join("c"), "p"), q)
		awaitReaders(t, stays, 1)
		awaitReaders(t, leaves, 1)
		write(t, leaves, poseOf("r", 1))
		pass(10 * time.Millisecond)
		write(t, stays, poseOf("r", 2))
		pass(10 * time.Millisecond)
		if err := leaves.Unregister(testContext(t), poseOf("r", 0)); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		expectXs(t, "the last sample of a writer that stays", r, 1, 2)
	})
}

// Who is dead neither keeps an instance alive nor owns it.
func TestADeadWriterOwnsNothing(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := transient
		q.Exclusive = true
		a, b := v.join("a"), v.join("b")
		c, wire := v.joinBy("c")
		owner := writerOf(t, topicOf[pose](t, b, "p"), strength(q, 5))
		r := readerOf(t, topicOf[pose](t, c, "p"), q)
		awaitReaders(t, owner, 1)
		write(t, owner, poseOf("r", 1))
		pass(time.Second)
		expectXs(t, "the owner", r, 1)
		wire.Cut()
		pass(time.Second)
		dies := writerOf(t, topicOf[pose](t, a, "p"), q)
		write(t, dies, poseOf("r", 2))
		pass(time.Second)
		closeNow(t, a)
		wire.Restore()
		pass(time.Minute)
		r.Take(9)
		if err := owner.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := r.Take(9); len(got) != 1 || got[0].Info.State != NoWriters {
			t.Errorf("the last living writer has gone: %+v", got)
		}
		next := writerOf(t, topicOf[pose](t, b, "p"), q) // as strong as the dead one
		awaitReaders(t, next, 1)
		write(t, next, poseOf("r", 3))
		pass(time.Second)
		expectXs(t, "who comes after", r, 3)
	})
}

// A pattern subscribes to all partitions; those that it does not match hold values
// of the dead as well.
func TestTheDeadOfOtherPartitionsAreNotHeard(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a, b := v.join("a"), v.join("b")
		for i, partition := range []string{"hall 1", "yard"} {
			q := transient
			q.Partition = []string{partition}
			w := writerOf(t, topicOf[pose](t, a, "p"), q)
			write(t, w, poseOf("r", float64(i)))
		}
		closeNow(t, a)
		pass(time.Second)
		q := transient
		q.Partition = []string{"hall*"}
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		pass(time.Second)
		expectXs(t, "a reader of the halls", r, 0)
	})
}

// What a filter by content drops is not lost to a reader of one instance.
func TestANarrowReaderDoesNotMissWhatItFiltersOut(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), keepAll)
		r := newReader(t, topicOf[pose](t, v.join("b"), "p"), WithQoS(keepAll), selected(t, "Robot = 'r' AND X > 5"))
		awaitReaders(t, w, 1)
		for i := range 9 {
			write(t, w, poseOf("r", float64(i)))
		}
		pass(time.Second)
		expectXs(t, "the filter", r, 6, 7, 8)
		silent(t, "the reader", r.ep.events)
	})
}

// A reader of one instance that comes later changes nothing for one that is there.
func TestNarrowReadersOfOneInstanceDoNotDisturbEachOther(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), keepAll)
		topic := topicOf[pose](t, v.join("b"), "p")
		one := newReader(t, topic, WithQoS(keepAll), WithInstance(poseOf("r", 0)))
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		for range 5 {
			write(t, w, poseOf("other", 0))
		}
		pass(time.Second)
		two := newReader(t, topic, WithQoS(keepAll), WithInstance(poseOf("r", 0)))
		awaitReaders(t, w, 2)
		write(t, w, poseOf("r", 2))
		pass(time.Second)
		expectXs(t, "the first", one, 1, 2)
		expectXs(t, "the second", two, 2)
		silent(t, "the first", one.ep.events)
		silent(t, "the second", two.ep.events)
	})
}

// What has expired is kept nowhere: not for late joiners, not for a broker that
// may lose its memory.
func TestWhatIsRetainedExpires(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := transientDepth(1)
		q.Lifespan = 5 * time.Second
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		b := v.join("b")
		write(t, w, poseOf("old", 1))
		pass(4 * time.Second)
		write(t, w, poseOf("new", 2))
		pass(2 * time.Second)
		var kept []string
		stop, err := b.SubscribeRaw(context.Background(), Main, []string{"data", "default", "p", "+", "+", "+"}, func(m RawMessage) {
			kept = append(kept, m.Levels[3])
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		pass(time.Second)
		if !reflect.DeepEqual(kept, []string{"new"}) {
			t.Errorf("the broker keeps %q", kept)
		}
	})
}

// To write with any writer that is manual by participant says that all are alive.
func TestAnInfiniteLeaseAssertsOthers(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a := v.join("a")
		q := QoS{Liveliness: ManualByParticipant}
		infinite := writerOf(t, topicOf[pose](t, a, "q"), q)
		q.LivelinessLease = time.Second
		finite := writerOf(t, topicOf[pose](t, a, "p"), q)
		for i := range 5 {
			pass(600 * time.Millisecond)
			if i%2 == 0 {
				write(t, infinite, poseOf("r", 1))
			} else if err := infinite.AssertLiveliness(); err != nil {
				t.Fatal(err)
			}
		}
		pass(600 * time.Millisecond)
		if lost := told[LivelinessLost](finite.ep.events); len(lost) > 0 {
			t.Errorf("%v although another writer of the kind wrote", lost)
		}
	})
}

// Retained samples that found no room come when what was there has expired.
func TestExpiryMakesRoomForWhatIsRetained(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a, b := v.join("a"), v.join("b")
		q := transientDepth(1)
		q.Lifespan = 5 * time.Second
		short := writerOf(t, topicOf[pose](t, a, "p"), q)
		long := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
		for i := range 2 {
			write(t, short, poseOf(name("short", i), float64(i)))
			pass(time.Millisecond)
		}
		write(t, long, poseOf("long", 9))
		pass(time.Millisecond)
		closeNow(t, a)
		q = transient
		q.MaxSamples = 2
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		pass(time.Minute)
		if got := r.Read(9); len(got) != 1 || got[0].Data.X != 9 {
			t.Errorf("%+v", got)
		}
	})
}

// What waited for its time and then for room comes when there is room.
func TestWhatIsDueComesAsSoonAsThereIsRoom(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a := v.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
		q := keepAll
		q.TimeBasedFilter, q.MaxSamples = time.Hour, 1
		r := readerOf(t, topicOf[pose](t, a, "p"), q)
		awaitReaders(t, w, 1)
		write(t, w, poseOf("r", 1))
		pass(time.Second)
		expectXs(t, "at once", r, 1)
		write(t, w, poseOf("r", 2)) // waits for its time
		write(t, w, poseOf("s", 3))
		pass(time.Hour + time.Minute)
		got := xs(r) // the first one makes room
		pass(time.Second)
		if got = append(got, xs(r)...); !reflect.DeepEqual(got, []float64{3, 2}) {
			t.Errorf("got %v", got)
		}
	})
}

// A reader that was away when a writer was asserted hears of it when it is back.
func TestAReaderThatWasAwayHearsUntilWhenAWriterLives(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Liveliness: ManualByTopic, LivelinessLease: time.Minute}
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		b, wire := v.joinBy("b")
		r := readerOf(t, topicOf[pose](t, b, "p"), QoS{})
		awaitReaders(t, w, 1)
		pass(40 * time.Second)
		wire.Cut()
		pass(time.Second)
		if err := w.AssertLiveliness(); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wire.Restore()
		pass(40 * time.Second) // 80 s after the first assertion, 40 s after the second
		for _, e := range told[LivelinessChanged](r.ep.events) {
			if !e.Alive {
				t.Errorf("%+v although its lease has not ended", e)
			}
		}
	})
}

// A writer whose lease had ended is counted until it is closed, and that is told.
func TestTheEndOfADeadWriterIsTold(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Liveliness: ManualByTopic, LivelinessLease: time.Second})
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), QoS{})
		awaitReaders(t, w, 1)
		pass(time.Minute)
		if got := told[LivelinessChanged](r.ep.events); len(got) != 2 || got[1].NotAliveWriters != 1 {
			t.Fatalf("%+v", got)
		}
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := told[LivelinessChanged](r.ep.events); len(got) != 1 || got[0].NotAliveWriters != 0 {
			t.Errorf("%+v", got)
		}
	})
}
