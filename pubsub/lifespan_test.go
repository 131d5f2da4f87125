package pubsub

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestASampleExpiresInTheReader(t *testing.T) {
	for _, reliability := range []Reliability{BestEffort, Reliable} {
		virtually(t, func(t *testing.T, v *world) {
			w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Reliability: reliability, Lifespan: 250 * time.Millisecond})
			r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), QoS{Reliability: reliability, History: KeepAll})
			awaitReaders(t, w, 1)
			for i := range 5 {
				write(t, w, pose{Robot: fmt.Sprint("r", i%2), X: float64(i)})
				pass(100 * time.Millisecond)
			}
			// Written 500, 400, 300, 200 and 100 ms ago.
			if got := len(r.Read(10)); got != 2 {
				t.Errorf("Read returned %d", got)
			}
			if got := values(r); !reflect.DeepEqual(got, []float64{3, 4}) {
				t.Errorf("took %v", got)
			}
			write(t, w, pose{X: 5})
			pass(time.Second)
			if n := r.recv.Held(); n != 0 {
				t.Errorf("%d samples are kept, although they have expired", n)
			}
		})
	}
}

func TestALateJoinerGetsNothingThatHasExpired(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll, Lifespan: 10 * time.Second}
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		write(t, w, pose{Robot: "old", X: 1})
		if err := w.Dispose(testContext(t), pose{Robot: "gone"}); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		write(t, w, pose{Robot: "new", X: 2})
		pass(6 * time.Second)
		held := w.send.Held()
		if held != 2 { // the new one, and that "gone" is disposed
			t.Errorf("the writer holds %d samples", held)
		}
		q.Lifespan = 0
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		pass(time.Second)
		if got := states(r); !reflect.DeepEqual(got, map[string]InstanceState{"new": Alive, "gone": Disposed}) {
			t.Errorf("the late joiner got %v", got)
		}
		if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
			t.Errorf("told that %v are lost, which were written before it came", lost)
		}
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Errorf("WaitAcked: %v", err)
		}
	})
}

// What comes too late, because the reader was away, is as if it had not been
// written.
func TestASampleExpiresOnItsWay(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Reliability: Reliable, History: KeepAll, Lifespan: time.Second})
		b, wire := v.joinBy("b")
		r := readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, History: KeepAll})
		awaitReaders(t, w, 1)
		write(t, w, pose{X: 1})
		pass(0)
		wire.Cut()
		write(t, w, pose{X: 2})
		pass(2 * time.Second)
		wire.Restore()
		write(t, w, pose{X: 3})
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for _, x := range values(r) {
			if x == 2 {
				t.Error("an expired sample was delivered")
			}
		}
	})
}
