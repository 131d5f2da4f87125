package pubsub

import (
	"context"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/tests/bubble"
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
		r.recv.mu.Lock()
		defer r.recv.mu.Unlock()
		if r.recv.cache.live != 0 {
			t.Errorf("%d samples are kept beyond their lifespan", r.recv.cache.live)
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
		wire.cut()
		pass(time.Second)
		dies := writerOf(t, topicOf[pose](t, a, "p"), q)
		write(t, dies, poseOf("r", 2))
		pass(time.Second)
		closeNow(t, a)
		wire.mend()
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
		r := newReader(t, topicOf[pose](t, v.join("b"), "p"), WithQoS(keepAll), WithExpression("Robot = 'r' AND X > 5"))
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

// Who looks at a full reader just when what is in it expires makes room as well.
func TestReadingWhatExpiresMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const lifespan = 5 * time.Second
		n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 4})
		n.match()
		n.heal()
		for i := range 5 {
			e := envelope{schema: 7, nanos: uint64(time.Now().UnixNano())}
			if i < 4 {
				e.options.lifespan = uint64(lifespan)
			}
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			if _, err := n.s.tryWrite("-", &e); err != nil {
				t.Fatal(err)
			}
		}
		for len(n.wire) > 0 {
			n.step(0, "deliver")
		}
		if !n.r.stalled {
			t.Fatal("the reader is not full")
		}
		time.Sleep(lifespan)
		n.r.waiting(1)
		n.r.tick(time.Now())
		n.heal()
		if got := n.r.waiting(9); len(got) != 1 || got[0].seq != 5 {
			t.Errorf("%d samples wait, stalled %v", len(got), n.r.stalled)
		}
	})
}

// An instance of which nothing was taken in takes no room.
func TestAnInstanceThatIsTurnedAwayIsForgotten(t *testing.T) {
	q := QoS{History: KeepAll, MaxSamples: 1, MaxInstances: 2}
	_ = q.validate()
	r := newReceiver("r1", 1, 7, q, newEvents())
	w := &remoteWriter{guid: GUID{"p", 1, "w1"}}
	now := time.Now()
	for i, key := range []string{"a", "b", "c"} {
		r.deliver(w, inSample{key: key, writer: w, seq: uint64(i + 1)}, now)
	}
	r.takeNext()
	r.cache.writerGone(w, now)
	r.takeNext()
	if ok, err := r.cache.accept(inSample{key: "d", writer: w, seq: 4}, now); !ok || err != nil {
		t.Errorf("%v, %v, although nobody writes the other instances", ok, err)
	}
	r.takeNext()
	if ok, err := r.cache.accept(inSample{key: "e", writer: w, seq: 5}, now); !ok || err != nil {
		t.Errorf("%v, %v, although of two instances one is known", ok, err)
	}
}

// A strong writer whose clock is behind owns what it writes.
func TestALateSampleShowsWhoOwns(t *testing.T) {
	q := QoS{Reliability: Reliable, History: KeepAll, Exclusive: true, BySourceTime: true}
	_ = q.validate()
	r := newReceiver("r1", 1, 7, q, newEvents())
	late := 0
	r.drop = func(reason) { late++ }
	weak := &remoteWriter{guid: GUID{"p", 1, "w1"}, alive: true}
	strong := &remoteWriter{guid: GUID{"p", 1, "w2"}, alive: true, strength: 5}
	now := time.Now()
	var got []uint64
	for i, s := range []inSample{{writer: weak, nanos: 100}, {writer: strong, nanos: 50}, {writer: weak, nanos: 200}, {writer: strong, nanos: 110}} {
		s.key, s.seq = "k", uint64(i+1)
		r.deliver(s.writer, s, now)
		for h := r.takeNext(); h != nil; h = r.takeNext() {
			got = append(got, h.seq)
		}
	}
	if !reflect.DeepEqual(got, []uint64{1, 4}) || late != 1 {
		t.Errorf("got %v, %d late; the third is of a writer weaker than one that writes", got, late)
	}
	r.cache.writerGone(weak, now)
	if i := r.cache.byKey["k"]; i.state != Alive {
		t.Errorf("%v although one writes it", i.state)
	}
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
		w.send.mu.Lock()
		old, young := w.send.retention.last["old"], w.send.retention.last["new"]
		w.send.mu.Unlock()
		if len(old.payload) > 0 || len(young.payload) == 0 {
			t.Errorf("the writer keeps %d bytes of what is over and %d of what is not", len(old.payload), len(young.payload))
		}
		var kept []string
		stop, err := b.SubscribeRaw(context.Background(), []string{"data", "default", "p", "+", "+", "+"}, func(m RawMessage) {
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

// What a writer wrote before its lease ended may be heard after.
func TestWhatComesLateOfADeadWriterLeavesNoWriter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(QoS{Reliability: Reliable})
		n.r.cache.qos.Depth = 2
		writer := endpoint{guid: GUID{"w", 1, "w1"}}
		writer.QoS = offer{Reliability: Reliable, timeOffer: timeOffer{Liveliness: ManualByTopic, Lease: time.Second}}
		n.r.matched(writer)
		reader := endpoint{guid: GUID{"r", 2, "r1"}}
		reader.QoS = offer{Reliability: Reliable}
		n.s.matched(reader)
		n.heal()
		for range 2 {
			if _, err := n.s.tryWrite("k", &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.step(0, "lose")
		n.step(0, "deliver")
		n.wire = nil
		time.Sleep(2 * time.Second)
		n.r.tick(time.Now())
		n.heal() // the first one is replaced: the second one follows
		if h := n.r.takeNext(); h == nil || h.seq != 2 {
			t.Fatalf("%+v", h)
		}
		if i := n.r.cache.byKey["k"]; i.state != NoWriters || len(i.writers) > 0 {
			t.Errorf("the instance is %v, with %d writers, although the only one is dead", i.state, len(i.writers))
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
		wire.cut()
		pass(time.Second)
		if err := w.AssertLiveliness(); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wire.mend()
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

// Whatever policies a reader has and whatever comes: who is dead holds nothing, what
// has ended is not kept, and once everybody has gone the cache is empty.
func TestACacheUnderAllPoliciesComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := QoS{
			Reliability: Reliable, MaxSamples: rapid.IntRange(2, 6).Draw(t, "samples"), MaxInstances: 3,
			Exclusive: rapid.Bool().Draw(t, "exclusive"), BySourceTime: rapid.Bool().Draw(t, "by source"),
			Depth: rapid.IntRange(1, 2).Draw(t, "depth"),
		}
		if rapid.Bool().Draw(t, "keep all") {
			q.History, q.Depth = KeepAll, 0
		}
		if rapid.Bool().Draw(t, "deadline") {
			q.Deadline = 10 * time.Second
		}
		if rapid.Bool().Draw(t, "filter") {
			q.TimeBasedFilter = 5 * time.Second
		}
		if rapid.Bool().Draw(t, "transient") {
			q.Durability = Transient
		}
		if err := q.validate(); err != nil {
			t.Fatal(err)
		}
		r := newReceiver("r1", 1, 7, q, newEvents())
		r.drop, r.post, r.wake = func(reason) {}, func(string, []byte) {}, make(chan struct{}, 1)
		c := &r.cache
		var all []*remoteWriter
		for i := range 3 {
			e := endpoint{guid: GUID{"w", 1, name("w", i)}}
			e.QoS = offer{Reliability: Reliable, timeOffer: timeOffer{Exclusive: q.Exclusive, Strength: rapid.IntRange(0, 2).Draw(t, "strength"), Lease: time.Hour}}
			r.matched(e)
			all = append(all, r.writers["w/"+name("w", i)])
		}
		for _, w := range all {
			w.started, w.next = true, 1
		}
		now := time.Now()
		check := func() {
			t.Helper()
			held := 0
			for key, i := range c.byKey {
				held += len(i.held)
				for w := range i.writers {
					if !w.alive {
						t.Fatalf("%q is written by a dead one", key)
					}
				}
				if i.owner != nil && !i.owner.alive {
					t.Fatalf("%q is owned by a dead one", key)
				}
				if i.state == Alive && len(i.writers) == 0 {
					t.Fatalf("%q is alive without a writer", key)
				}
				if c.deadlines.byKey[key] != nil && i.state != Alive {
					t.Fatalf("%q has a deadline and is %v", key, i.state)
				}
			}
			if held != c.live || c.live > q.MaxSamples {
				t.Fatalf("%d held, %d live", held, c.live)
			}
			for key := range c.deadlines.byKey {
				if c.byKey[key] == nil {
					t.Fatalf("%q has a deadline and is forgotten", key)
				}
			}
			for i := range c.separation.waiting {
				if i.state == Disposed && !c.separation.waiting[i].orphan {
					t.Fatal("a sample of a disposed instance waits")
				}
			}
			if next := c.due(); !next.IsZero() && (r.due.IsZero() || r.due.After(next)) {
				t.Fatalf("due at %v, armed for %v", next, r.due)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w := all[rapid.IntRange(0, 2).Draw(t, "writer")]
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				if !w.alive {
					r.revive(w, now)
				}
				s := inSample{
					key: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"), writer: w, seq: w.next,
					nanos:  uint64(now.UnixNano() - rapid.Int64Range(0, 3).Draw(t, "behind")*int64(time.Second)),
					status: status(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "status")),
				}
				if s.status == statusData && rapid.Bool().Draw(t, "mortal") {
					s.mortal = &mortal{due: now.Add(4 * time.Second)}
				}
				if r.deliver(w, s, now) {
					w.next++
				}
			case op == 5:
				dead := &remoteWriter{guid: GUID{"dead", 1, "w1"}, reliable: true}
				o := inSample{key: rapid.SampledFrom([]string{"a", "b", "e"}).Draw(t, "key"), writer: dead, seq: 1, nanos: uint64(now.UnixNano()), orphan: true}
				r.deliver(dead, o, now)
			case op == 6:
				r.bury(w, now)
			case op == 7:
				now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
				c.release(now)
				r.arm(c.due())
				r.tick(now)
			case op == 8:
				c.take()
			default:
				r.restrengthened(w.guid, rapid.IntRange(0, 2).Draw(t, "new strength"))
			}
			check()
		}
		for _, w := range all {
			r.unmatched(w.guid, true)
		}
		for range 3 {
			for c.take() != nil {
			}
			now = now.Add(time.Minute)
			c.release(now)
			r.tick(now)
			check()
		}
		for c.purge() {
		}
		if len(c.byKey) > 0 || c.live > 0 || len(c.mortals) > 0 || len(c.separation.waiting) > 0 || !c.deadlines.next().IsZero() {
			t.Fatalf("left: %d instances, %d samples, %d mortals, %d wait", len(c.byKey), c.live, len(c.mortals), len(c.separation.waiting))
		}
	})
}
