package pubsub

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// lives returns what a reader was told of its writers' liveliness.
func lives[T any](r *Reader[T]) (out []bool) {
	for _, e := range told[LivelinessChanged](r.ep.events) {
		out = append(out, e.Alive)
	}
	return out
}

// A participant that falls silent is dead to readers after the lease, long
// before the broker notices.
func TestAnAutomaticWriterLivesAsLongAsItIsHeard(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a, wire := v.joinBy("a")
		q := QoS{Reliability: Reliable, LivelinessLease: time.Second}
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		write(t, w, pose{Robot: "r1"})
		pass(time.Hour)
		if got := told[LivelinessChanged](r.ep.events); !reflect.DeepEqual(got, []LivelinessChanged{{w.GUID(), true, 1, 0}}) {
			t.Fatalf("after an hour without a sample: %v", got)
		}
		states(r)
		wire.Mute(true)
		pass(700 * time.Millisecond)
		if got := lives(r); got != nil {
			t.Errorf("after 0.7 s of silence: %v", got)
		}
		pass(400 * time.Millisecond)
		if got := told[LivelinessChanged](r.ep.events); !reflect.DeepEqual(got, []LivelinessChanged{{w.GUID(), false, 0, 1}}) {
			t.Errorf("after 1.1 s of silence: %v", got)
		}
		if got := states(r); got["r1"] != NoWriters {
			t.Errorf("its instance: %v", got)
		}
		wire.Mute(false)
		pass(500 * time.Millisecond)
		if got := told[LivelinessChanged](r.ep.events); !reflect.DeepEqual(got, []LivelinessChanged{{w.GUID(), true, 1, 0}}) {
			t.Errorf("after it was heard again: %v", got)
		}
		write(t, w, pose{Robot: "r1"})
		pass(0)
		if some := r.Take(1); len(some) != 1 || some[0].Info.State != Alive || some[0].Info.NoWritersGeneration != 1 {
			t.Errorf("it wrote: %+v", some)
		}
		wire.Cut() // what vanished is never acknowledged, which Close would wait for
	})
}

// An infinite lease costs nothing on the wire; the broker's word is enough.
func TestAnInfiniteLeaseNeedsNoHeartbeats(t *testing.T) {
	sent := func(lease time.Duration) (bytes int64, got []LivelinessChanged) {
		virtually(t, func(t *testing.T, v *world) {
			a, wire := v.joinBy("a")
			w := writerOf(t, topicOf[pose](t, a, "p"), QoS{LivelinessLease: lease})
			r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), QoS{})
			awaitReaders(t, w, 1)
			pass(time.Second) // until what the match caused is over
			before := wire.Sent()
			pass(10 * time.Minute)
			bytes = wire.Sent() - before
			wire.Cut()
			pass(0)
			got = told[LivelinessChanged](r.ep.events)
			for i := range got {
				if got[i].Writer != w.GUID() {
					t.Errorf("%+v", got[i])
				}
				got[i].Writer = GUID{}
			}
		})
		return bytes, got
	}
	// Pings of two bytes on two connections, more often than every keep-alive of
	// 5 s.
	infinite, changed := sent(0)
	if infinite > 2*2*600/4 {
		t.Errorf("%d bytes in ten minutes", infinite)
	}
	if want := []LivelinessChanged{{GUID{}, true, 1, 0}, {GUID{}, false, 0, 0}}; !reflect.DeepEqual(changed, want) {
		t.Errorf("the will: %v", changed)
	}
	if finite, _ := sent(time.Second); finite < 100*infinite/10 {
		t.Errorf("%d bytes with a finite lease, %d without: the heartbeats are not measured", finite, infinite)
	}
}

func TestAnAutomaticWriterWithoutConnectionLearnsThatItIsTakenForDead(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		a, wire := v.joinBy("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), QoS{LivelinessLease: 10 * time.Second})
		pass(time.Minute)
		if got := told[LivelinessLost](w.ep.events); got != nil {
			t.Fatalf("while connected: %v", got)
		}
		for n := range uint64(2) {
			wire.Cut()
			pass(15 * time.Second)
			if got := told[LivelinessLost](w.ep.events); !reflect.DeepEqual(got, []LivelinessLost{{n + 1}}) {
				t.Errorf("after 15 s without connection: %v", got)
			}
			wire.Restore()
			pass(15 * time.Second)
		}
		if got := told[LivelinessLost](w.ep.events); got != nil {
			t.Errorf("after it is back: %v", got)
		}
	})
}

func TestAManualWriterLivesByWhatItsApplicationDoes(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Reliability: Reliable, Liveliness: ManualByTopic, LivelinessLease: time.Second}
		a := v.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		for i := range 10 {
			pass(900 * time.Millisecond)
			if i%2 == 0 {
				write(t, w, pose{Robot: "r1"})
			} else if err := w.AssertLiveliness(); err != nil {
				t.Fatal(err)
			}
		}
		pass(900 * time.Millisecond)
		if got, lost := lives(r), told[LivelinessLost](w.ep.events); !reflect.DeepEqual(got, []bool{true}) || lost != nil {
			t.Fatalf("asserted every 0.9 s: reader %v, writer %v", got, lost)
		}
		if err := a.AssertLiveliness(); err != nil { // is not for it
			t.Fatal(err)
		}
		pass(110 * time.Millisecond)
		if got, lost := lives(r), told[LivelinessLost](w.ep.events); !reflect.DeepEqual(got, []bool{false}) || !reflect.DeepEqual(lost, []LivelinessLost{{1}}) {
			t.Errorf("1.01 s after the last: reader %v, writer %v", got, lost)
		}
		if got := states(r); got["r1"] != NoWriters {
			t.Errorf("its instance: %v", got)
		}
		// Who comes now is told that it is not alive.
		late := readerOf(t, topicOf[pose](t, v.join("c"), "p"), q)
		awaitReaders(t, w, 2)
		pass(100 * time.Millisecond)
		if got := lives(late); !reflect.DeepEqual(got, []bool{true, false}) {
			t.Errorf("a reader that came late: %v", got)
		}
		if err := w.AssertLiveliness(); err != nil {
			t.Fatal(err)
		}
		pass(0)
		if got := lives(r); !reflect.DeepEqual(got, []bool{true}) {
			t.Errorf("asserted again: %v", got)
		}
		pass(2 * time.Second)
		told[LivelinessLost](w.ep.events)
		told[LivelinessChanged](r.ep.events)
		write(t, w, pose{Robot: "r1"})
		pass(0)
		if got := lives(r); !reflect.DeepEqual(got, []bool{true}) {
			t.Errorf("written again: %v", got)
		}
		if n := statusCount(a, "liveliness_lost"); n != 2 {
			t.Errorf("counted %d losses", n)
		}
		if err := w.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(0)
		if got := lives(r); !reflect.DeepEqual(got, []bool{false}) {
			t.Errorf("closed: %v", got)
		}
		if err := w.AssertLiveliness(); !errors.Is(err, ErrClosed) {
			t.Errorf("AssertLiveliness after Close: %v", err)
		}
	})
}

func TestManualWritersOfAParticipantLiveByEachOther(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Reliability: Reliable, Liveliness: ManualByParticipant, LivelinessLease: time.Second}
		a, b := v.join("a"), v.join("b")
		busy, idle := writerOf(t, topicOf[pose](t, a, "busy"), q), writerOf(t, topicOf[pose](t, a, "idle"), q)
		automatic := writerOf(t, topicOf[pose](t, a, "automatic"), QoS{LivelinessLease: time.Second})
		byTopic := q
		byTopic.Liveliness = ManualByTopic
		alone := writerOf(t, topicOf[pose](t, a, "alone"), byTopic)
		r := readerOf(t, topicOf[pose](t, b, "idle"), q)
		other := readerOf(t, topicOf[pose](t, b, "alone"), byTopic)
		awaitReaders(t, idle, 1)
		awaitReaders(t, alone, 1)
		for range 5 {
			pass(900 * time.Millisecond)
			write(t, busy, pose{})
		}
		pass(900 * time.Millisecond)
		if got, lost := lives(r), told[LivelinessLost](idle.ep.events); !reflect.DeepEqual(got, []bool{true}) || lost != nil {
			t.Errorf("while another writes: reader %v, writer %v", got, lost)
		}
		if got := lives(other); !reflect.DeepEqual(got, []bool{true, false}) {
			t.Errorf("one by topic, while another writes: %v", got)
		}
		write(t, automatic, pose{}) // does not speak for the application
		pass(time.Second)
		if got, lost := lives(r), told[LivelinessLost](idle.ep.events); !reflect.DeepEqual(got, []bool{false}) || len(lost) != 1 {
			t.Errorf("when nobody does: reader %v, writer %v", got, lost)
		}
		for range 3 {
			if err := a.AssertLiveliness(); err != nil {
				t.Fatal(err)
			}
			pass(500 * time.Millisecond)
		}
		if got := lives(r); !reflect.DeepEqual(got, []bool{true}) {
			t.Errorf("asserted by the participant: %v", got)
		}
		closeNow(t, a)
		if err := a.AssertLiveliness(); !errors.Is(err, ErrClosed) {
			t.Errorf("AssertLiveliness after Close: %v", err)
		}
	})
}

// A reader that is cut off itself cannot know, and must not pretend to.
func TestAReaderWithoutConnectionTakesItsWritersForDead(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{LivelinessLease: time.Second}
		b, wire := v.joinBy("b")
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 1)
		wire.Cut()
		pass(1100 * time.Millisecond)
		if got := lives(r); !reflect.DeepEqual(got, []bool{true, false}) {
			t.Errorf("%v", got)
		}
	})
}
