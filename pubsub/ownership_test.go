package pubsub

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"padme/tests/cable"
)

// exclusive is what writers and readers of these tests share.
var exclusive = QoS{Reliability: Reliable, History: KeepAll, Exclusive: true}

func strength(q QoS, n int) QoS {
	q.Strength = n
	return q
}

// rivals are writers of one instance by falling strength, each in a participant
// of its own, and a reader.
type rivals struct {
	t     *testing.T
	v     *world
	p     []*Participant
	wires []*cable.Cable
	w     []*Writer[pose]
	r     *Reader[pose]
}

func newRivals(t *testing.T, v *world, q QoS, strengths ...int) *rivals {
	x := &rivals{t: t, v: v}
	q.Exclusive = true
	x.r = readerOf(t, topicOf[pose](t, v.join("reader"), "p"), q)
	for i, n := range strengths {
		p, wire := v.joinBy(fmt.Sprint("w", i))
		x.p, x.wires = append(x.p, p), append(x.wires, wire)
		x.w = append(x.w, writerOf(t, topicOf[pose](t, p, "p"), strength(q, n)))
		awaitReaders(t, x.w[i], 1)
	}
	return x
}

// heard has the writers write one after the other and returns whose samples
// arrive.
func (x *rivals) heard(writers ...int) (out []float64) {
	x.t.Helper()
	for _, i := range writers {
		write(x.t, x.w[i], pose{Robot: "r1", X: float64(i)})
		pass(0)
	}
	return values(x.r)
}

func (x *rivals) expect(what string, got []float64, want ...float64) {
	x.t.Helper()
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: heard %v, want %v", what, got, want)
	}
}

func TestTheStrongestWriterOwns(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		x := newRivals(t, v, exclusive, 5, 3, 1)
		x.expect("weakest first", x.heard(2, 2, 1, 2, 0, 1, 2, 0), 2, 2, 1, 0, 0)
		write(t, x.w[2], pose{Robot: "r2", X: 2}) // another instance has another owner
		pass(0)
		x.expect("another instance", values(x.r), 2)
		if err := x.w[1].Dispose(testContext(t), pose{Robot: "r1"}); err != nil {
			t.Fatal(err)
		}
		pass(0)
		if got := states(x.r); len(got) > 0 {
			t.Errorf("a weaker writer disposed: %v", got)
		}
		if err := x.w[0].Dispose(testContext(t), pose{Robot: "r1"}); err != nil {
			t.Fatal(err)
		}
		pass(0)
		if got := states(x.r); got["r1"] != Disposed {
			t.Errorf("the owner disposed: %v", got)
		}
		x.expect("the owner that disposed still owns", x.heard(1, 2, 0), 0)
	})
}

func TestAmongEqualsTheLowestGUIDOwns(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		x := newRivals(t, v, exclusive, 7, 7)
		x.expect("w1, then w0, which is lower", x.heard(1, 1, 0, 1, 0), 1, 1, 0, 0)
	})
}

func TestOwnershipFailsOver(t *testing.T) {
	for _, c := range []struct {
		name string
		q    QoS
		fail func(x *rivals) error
	}{
		{"unregister", QoS{}, func(x *rivals) error { return x.w[0].Unregister(testContext(x.t), pose{Robot: "r1"}) }},
		{"close", QoS{}, func(x *rivals) error { return x.w[0].Close(testContext(x.t)) }},
		{"the broker's word", QoS{}, func(x *rivals) error { x.wires[0].Cut(); return nil }},
		{"lease", QoS{LivelinessLease: time.Second}, func(x *rivals) error {
			x.wires[0].Mute(true)
			pass(1100 * time.Millisecond)
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, v *world) {
				q := c.q
				q.Reliability, q.History = Reliable, KeepAll
				x := newRivals(t, v, q, 5, 3, 1)
				x.expect("before", x.heard(2, 1, 0, 1, 2), 2, 1, 0)
				if err := c.fail(x); err != nil {
					t.Fatal(err)
				}
				pass(0)
				for _, s := range x.r.Take(10) {
					t.Errorf("%+v, although others write the instance", s)
				}
				// Not the next one that writes, but the strongest of the others.
				x.expect("after", x.heard(2, 1, 2, 1), 1, 1)
			})
		})
	}
}

func TestAnOwnerThatMissesItsDeadlineLosesTheInstance(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := exclusive
		q.Deadline = time.Second
		x := newRivals(t, v, q, 5, 3, 1)
		x.expect("before", x.heard(2, 1, 0), 2, 1, 0)
		for range 2 {
			pass(600 * time.Millisecond)
			x.expect("before the deadline", x.heard(0, 2), 0)
		}
		pass(600 * time.Millisecond)
		x.expect("still before", x.heard(2))
		pass(600 * time.Millisecond)
		if got := told[RequestedDeadlineMissed](x.r.ep.events); !reflect.DeepEqual(got, []RequestedDeadlineMissed{{"r1", 1}}) {
			t.Errorf("%v", got)
		}
		x.expect("who is in time has it", x.heard(2, 2), 2, 2)
		x.expect("and loses it to a stronger one", x.heard(1, 2), 1)
		if err := x.w[1].Unregister(testContext(t), pose{Robot: "r1"}); err != nil {
			t.Fatal(err)
		}
		pass(0)
		x.expect("one that was late is not elected", x.heard(2), 2)
		x.expect("but is back as soon as it writes", x.heard(0, 2), 0)
	})
}

func TestStrengthChangesAtRunTime(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		x := newRivals(t, v, exclusive, 5, 3)
		x.expect("before", x.heard(1, 0, 1, 0), 1, 0, 0)
		set := func(i, n int) {
			t.Helper()
			if err := x.w[i].SetQoS(strength(x.w[i].QoS(), n)); err != nil {
				t.Fatal(err)
			}
			pass(0)
		}
		set(1, 9)
		x.expect("the second is stronger", x.heard(0, 1, 0), 1)
		set(1, -9)
		x.expect("and weaker again", x.heard(1, 0, 1), 0)
		if lost := told[Unmatched](x.r.ep.events); len(lost) > 0 {
			t.Errorf("a change of strength ended matches: %v", lost)
		}
		// Offline it is announced with the reconnection.
		x.wires[1].Cut()
		pass(time.Second)
		set(1, 9)
		x.wires[1].Restore()
		pass(20 * time.Second)
		states(x.r)
		x.expect("after a reconnection", x.heard(0, 1, 0), 0, 1)

		shared := writerOf(t, topicOf[pose](t, x.p[0], "shared"), QoS{})
		if err := shared.SetQoS(QoS{Strength: 1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("a shared writer: %v", err)
		}
		if err := x.w[0].Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if err := x.w[0].SetQoS(strength(x.w[0].QoS(), 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed writer: %v", err)
		}
	})
}
