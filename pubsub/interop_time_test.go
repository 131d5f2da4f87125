package pubsub

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// These are the scenarios of the public interoperability suite for DDS
// (omg-dds/dds-rtps, test_suite.py) for the policies of time and ownership, by
// their names there, in virtual time. "color" is the key of its shapes, here
// Robot; "size", which tells publishers or samples apart, is X.

// Whether two match; if not, both are told of the policy and nothing flows.
func TestInteropMatching(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	excl := func(n int) QoS { return QoS{Exclusive: true, Strength: n} }
	lively := func(kind Liveliness, lease time.Duration) QoS {
		return QoS{Liveliness: kind, LivelinessLease: lease}
	}
	for _, c := range []struct {
		name               string
		offered, requested QoS
		policy             string // "" if they match
	}{
		{"Ownership_0", QoS{}, QoS{}, ""},
		{"Ownership_1", QoS{}, excl(0), "OWNERSHIP"},
		{"Ownership_2", excl(3), QoS{}, "OWNERSHIP"},
		{"Deadline_0", QoS{Deadline: ms(3000)}, QoS{Deadline: ms(5000)}, ""},
		{"Deadline_1", QoS{Deadline: ms(5000)}, QoS{Deadline: ms(5000)}, ""},
		{"Deadline_2", QoS{Deadline: ms(7000)}, QoS{Deadline: ms(5000)}, "DEADLINE"},
		// Not in the suite: infinity, and liveliness.
		{"no deadline is offered", QoS{}, QoS{Deadline: ms(5000)}, "DEADLINE"},
		{"no deadline is requested", QoS{Deadline: ms(5000)}, QoS{}, ""},
		{"the lease is longer", lively(Automatic, ms(2000)), lively(Automatic, ms(1000)), "LIVELINESS"},
		{"the lease is infinite", QoS{}, lively(Automatic, ms(1000)), "LIVELINESS"},
		{"no lease is requested", lively(Automatic, ms(1000)), QoS{}, ""},
		{"automatic, participant", lively(Automatic, 0), lively(ManualByParticipant, 0), "LIVELINESS"},
		{"participant, topic", lively(ManualByParticipant, 0), lively(ManualByTopic, 0), "LIVELINESS"},
		{"topic, automatic", lively(ManualByTopic, ms(1000)), lively(Automatic, ms(2000)), ""},
		{"exclusive", excl(1), excl(0), ""},
		{"only the writer has a lifespan", QoS{Lifespan: ms(1000)}, QoS{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, v *world) {
				a, b := v.join("a"), v.join("b")
				w := writerOf(t, topicOf[pose](t, a, "Square"), c.offered)
				r := readerOf(t, topicOf[pose](t, b, "Square"), c.requested)
				pass(time.Second)
				write(t, w, pose{X: 1})
				pass(0)
				var want []float64
				if c.policy == "" {
					want = []float64{1}
				}
				if got := values(r); !reflect.DeepEqual(got, want) {
					t.Errorf("the reader got %v, want %v", got, want)
				}
				for side, peer := range map[*events]GUID{w.ep.events: r.GUID(), r.ep.events: w.GUID()} {
					var want []IncompatibleQoS
					if c.policy != "" {
						want = []IncompatibleQoS{{peer, c.policy}}
					}
					if got := told[IncompatibleQoS](side); !reflect.DeepEqual(got, want) {
						t.Errorf("%v and not %v", got, want)
					}
				}
			})
		})
	}
}

// Test_Deadline_3: what is promised every 2 s is written every 3 s.
func TestInteropDeadline3(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Deadline: 2 * time.Second}
		w := writerOf(t, topicOf[pose](t, v.join("a"), "Square"), q)
		r := readerOf(t, topicOf[pose](t, v.join("b"), "Square"), q)
		awaitReaders(t, w, 1)
		for range 10 {
			write(t, w, pose{Robot: "BLUE"})
			pass(3 * time.Second)
		}
		if n := len(told[OfferedDeadlineMissed](w.ep.events)); n != 10 {
			t.Errorf("the writer was told %d times", n)
		}
		if n := len(told[RequestedDeadlineMissed](r.ep.events)); n != 10 {
			t.Errorf("the reader was told %d times", n)
		}
	})
}

// Test_Ownership_3 to 6: two publishers of one or two colors, shared or
// exclusive.
func TestInteropOwnership(t *testing.T) {
	for _, c := range []struct {
		name      string
		exclusive bool
		colors    [2]string
		both      bool // the reader hears both to the end
	}{
		{"Ownership_3", true, [2]string{"BLUE", "BLUE"}, false},
		{"Ownership_4", true, [2]string{"BLUE", "RED"}, true},
		{"Ownership_5", false, [2]string{"BLUE", "BLUE"}, true},
		{"Ownership_6", false, [2]string{"BLUE", "RED"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, v *world) {
				q := QoS{Reliability: Reliable, History: KeepAll, Exclusive: c.exclusive}
				r := readerOf(t, topicOf[pose](t, v.join("sub"), "Square"), q)
				var pubs []*Writer[pose]
				for i := range c.colors {
					if c.exclusive {
						q.Strength = 3 + i
					}
					pubs = append(pubs, writerOf(t, topicOf[pose](t, v.join(fmt.Sprint("pub", i)), "Square"), q))
					awaitReaders(t, pubs[i], 1)
				}
				heard := map[float64]int{}
				for round := range 500 {
					for i, w := range pubs {
						write(t, w, pose{Robot: c.colors[i], X: float64(20 + 10*i)})
					}
					pass(33 * time.Millisecond)
					for _, x := range values(r) {
						if round > 0 { // the weaker may be first
							heard[x]++
						}
					}
				}
				want := map[float64]int{30: 499}
				if c.both {
					want[20] = 499
				}
				if !reflect.DeepEqual(heard, want) {
					t.Errorf("heard %v, want %v", heard, want)
				}
			})
		})
	}
}

// Test_Lifespan: each time the reader reads, only the last two or three samples
// of each instance are not over. The suite has them by reliability, in seconds
// and fractions, with one instance and with four.
func TestInteropLifespan(t *testing.T) {
	for _, reliability := range []Reliability{Reliable, BestEffort} {
		for _, times := range []struct{ write, lifespan, read time.Duration }{
			{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond},
			{400 * time.Millisecond, time.Second, 2 * time.Second},
		} {
			for _, instances := range []int{1, 4} {
				t.Run(fmt.Sprint(reliability, times.lifespan, instances), func(t *testing.T) {
					virtually(t, func(t *testing.T, v *world) {
						w := writerOf(t, topicOf[pose](t, v.join("a"), "Square"), QoS{Reliability: reliability, History: KeepAll, Lifespan: times.lifespan})
						r := readerOf(t, topicOf[pose](t, v.join("b"), "Square"), QoS{Reliability: reliability, History: KeepAll})
						awaitReaders(t, w, 1)
						size := 0.0
						for range 50 {
							for range times.read / times.write {
								pass(times.write)
								size++
								for i := range instances {
									write(t, w, pose{Robot: fmt.Sprint(i), X: size})
								}
							}
							pass(0)
							got := map[string][]float64{}
							for _, s := range r.Take(1000) {
								got[s.Data.Robot] = append(got[s.Data.Robot], s.Data.X)
							}
							for i := range instances {
								// Written 0, 1 and 2 periods ago; 3 are longer than the lifespan.
								if sizes := got[fmt.Sprint(i)]; !reflect.DeepEqual(sizes, []float64{size - 2, size - 1, size}) {
									t.Fatalf("instance %d at %v: %v", i, size, sizes)
								}
							}
						}
					})
				})
			}
		}
	}
}

// Test_FinalInstanceState: how the publisher ends is how its instances end.
func TestInteropFinalInstanceState(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, w *Writer[pose], v pose) error
		want InstanceState
	}{
		{"FinalInstanceState_0", func(t *testing.T, w *Writer[pose], v pose) error { return w.Unregister(testContext(t), v) }, NoWriters},
		{"FinalInstanceState_1", func(t *testing.T, w *Writer[pose], v pose) error { return w.Dispose(testContext(t), v) }, Disposed},
		{"FinalInstanceState_2", func(*testing.T, *Writer[pose], pose) error { return nil }, NoWriters},
	} {
		for _, exclusive := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " exclusive ", exclusive), func(t *testing.T) {
				virtually(t, func(t *testing.T, v *world) {
					q := QoS{Reliability: Reliable, Exclusive: exclusive}
					w := writerOf(t, topicOf[pose](t, v.join("a"), "Square"), q)
					r := readerOf(t, topicOf[pose](t, v.join("b"), "Square"), q)
					awaitReaders(t, w, 1)
					colors := []string{"BLUE", "BLUE1", "BLUE2", "BLUE3"}
					for range 200 {
						for _, color := range colors {
							write(t, w, pose{Robot: color})
						}
						pass(33 * time.Millisecond)
						for color, state := range states(r) {
							if state != Alive {
								t.Fatalf("%s is %v while it is written", color, state)
							}
						}
					}
					for _, color := range colors {
						if err := c.end(t, w, pose{Robot: color}); err != nil {
							t.Fatal(err)
						}
					}
					if err := w.WaitAcked(testContext(t)); err != nil {
						t.Fatal(err)
					}
					if err := w.Close(testContext(t)); err != nil {
						t.Fatal(err)
					}
					pass(0)
					want := map[string]InstanceState{}
					for _, color := range colors {
						want[color] = c.want
					}
					if got := states(r); !reflect.DeepEqual(got, want) {
						t.Errorf("in the end %v, want %v", got, want)
					}
				})
			})
		}
	}
}
