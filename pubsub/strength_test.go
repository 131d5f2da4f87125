package pubsub

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/tests/cable"
)

// joinByTwo joins over two connections that can be held up: one for what others say of
// themselves, one for what they write.
func (w *world) joinByTwo(id string) (p *Participant, words, samples *cable.Cable) {
	w.t.Helper()
	words, samples = cable.New(w.b.Dial), cable.New(w.b.Dial)
	var mu sync.Mutex
	next := []*cable.Cable{words, samples}
	p = join(w.t, "", id, WithDialer(func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		v := next[0]
		next = next[1:]
		mu.Unlock()
		return v.Dial(ctx)
	}))
	return p, words, samples
}

// A sample counts with the strength with which it was written, whichever comes first: the
// sample, or the word that its writer has another strength.
func TestASampleHasTheStrengthItWasWrittenWith(t *testing.T) {
	orders := map[string]func(words, samples *cable.Cable) *cable.Cable{
		"together":      func(*cable.Cable, *cable.Cable) *cable.Cable { return nil },
		"samples first": func(words, _ *cable.Cable) *cable.Cable { return words },
		"words first":   func(_, samples *cable.Cable) *cable.Cable { return samples },
	}
	for order, late := range orders {
		for _, c := range []struct {
			name      string
			strengths []int     // of b, one sample with each; that of a is 10
			heard     []float64 // the places of those in strengths
			ownerIsB  bool      // in the end
		}{
			{"raised", []int{1, 20}, []float64{1}, true},
			{"lowered", []int{20, 1}, []float64{0}, false},
			{"below zero", []int{20, -5}, []float64{0}, false},
			{"raised and lowered", []int{1, 20, 2}, []float64{1}, false},
			{"lowered and raised", []int{20, 1, 30, 40}, []float64{0, 2, 3}, true},
		} {
			for _, q := range []QoS{exclusive, {History: KeepAll, Exclusive: true}} {
				t.Run(name(order, "/", c.name, "/", q.Reliability), func(t *testing.T) {
					virtually(t, func(t *testing.T, v *world) {
						p, words, samples := v.joinByTwo("reader")
						r := readerOf(t, topicOf[pose](t, p, "p"), q)
						a := writerOf(t, topicOf[pose](t, v.join("a"), "p"), strength(q, 10))
						b := writerOf(t, topicOf[pose](t, v.join("b"), "p"), strength(q, c.strengths[0]))
						awaitReaders(t, a, 1)
						awaitReaders(t, b, 1)
						write(t, a, poseOf("k", 100))
						pass(0)
						expectXs(t, "a owns", r, 100)

						held := late(words, samples)
						if held != nil {
							held.HoldReceived()
						}
						for i, n := range c.strengths {
							if err := b.SetQoS(strength(q, n)); err != nil {
								t.Fatal(err)
							}
							write(t, b, poseOf("k", float64(i)))
						}
						pass(10 * time.Millisecond)
						write(t, a, poseOf("k", 101))
						pass(10 * time.Millisecond)
						if held != nil {
							held.Release()
						}
						pass(time.Second)
						want := c.heard
						if !c.ownerIsB {
							want = append(slices.Clone(want), 101)
						}
						expectXs(t, "of b, and of a in the end", r, want...)
						silent(t, "the reader", r.ep.events)
					})
				})
			}
		}
	}
}

// So does a sample that is sent again, and one of a history.
func TestASampleSentAgainHasTheStrengthItWasWrittenWith(t *testing.T) {
	q := exclusive
	q.Durability = TransientLocal
	for _, c := range []struct {
		strengths []int
		heard     []float64
	}{
		{[]int{1, 20, 2}, []float64{1}},
		{[]int{20, 1}, []float64{0}},
		{[]int{1, 20}, []float64{1}},
	} {
		t.Run(name(c.strengths), func(t *testing.T) {
			virtually(t, func(t *testing.T, v *world) {
				readers := v.join("reader")
				r := readerOf(t, topicOf[pose](t, readers, "p"), q)
				a := writerOf(t, topicOf[pose](t, v.join("a"), "p"), strength(q, 10))
				p, wire := v.joinBy("b")
				b := writerOf(t, topicOf[pose](t, p, "p"), strength(q, c.strengths[0]))
				awaitReaders(t, a, 1)
				awaitReaders(t, b, 1)
				write(t, a, poseOf("k", 100))
				pass(0)
				wire.Cut()
				pass(time.Second)
				expectXs(t, "a owns", r, 100)
				for i, n := range c.strengths {
					if err := b.SetQoS(strength(q, n)); err != nil {
						t.Fatal(err)
					}
					write(t, b, poseOf("k", float64(i)))
				}
				wire.Restore()
				pass(20 * time.Second)
				expectXs(t, "of b, which was offline", r, c.heard...)
				late := readerOf(t, topicOf[pose](t, readers, "p"), q)
				pass(time.Second)
				// Which of the two histories comes first is not known.
				if got := xs(late); !slices.Contains(got, c.heard[0]) {
					t.Errorf("a late joiner got %v, want among them %v", got, c.heard)
				}
				last := c.strengths[len(c.strengths)-1]
				write(t, a, poseOf("k", 101))
				pass(0)
				if got, want := slices.Contains(xs(late), 101), last < 10; got != want {
					t.Errorf("a late joiner hears a: %v, and b has strength %d", got, last)
				}
			})
		})
	}
}

// A late joiner ends with what the owner has written, whichever history comes first.
func TestALateJoinerEndsWithWhatTheOwnerWrote(t *testing.T) {
	for _, durability := range []Durability{TransientLocal, Transient} {
		for _, ids := range [][2]string{{"a", "b"}, {"b", "a"}} {
			for round := range 6 { // the order is that of a map
				t.Run(name(durability, ids[0], round), func(t *testing.T) {
					virtually(t, func(t *testing.T, v *world) {
						q := exclusive
						q.Durability = durability
						w := writerOf(t, topicOf[pose](t, v.join(ids[0]), "p"), strength(q, 20))
						o := writerOf(t, topicOf[pose](t, v.join(ids[1]), "p"), strength(q, 10))
						p := v.join("reader")
						r := readerOf(t, topicOf[pose](t, p, "p"), q)
						awaitReaders(t, w, 1)
						awaitReaders(t, o, 1)
						write(t, w, poseOf("k", 1))
						pass(10 * time.Millisecond)
						if err := w.SetQoS(strength(q, 5)); err != nil {
							t.Fatal(err)
						}
						pass(10 * time.Millisecond)
						write(t, o, poseOf("k", 2))
						pass(10 * time.Millisecond)
						late := readerOf(t, topicOf[pose](t, p, "p"), q)
						pass(time.Second)
						for who, r := range map[string]*Reader[pose]{"the early one": r, "a late joiner": late} {
							if got := xs(r); len(got) == 0 || got[len(got)-1] != 2 {
								t.Errorf("%s got %v, want 2 in the end", who, got)
							}
						}
					})
				})
			}
		}
	}
}
