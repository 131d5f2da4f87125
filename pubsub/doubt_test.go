package pubsub

import (
	"testing"
	"time"
)

// haunt kills a participant and has the broker keep what it kept of it before, as a broker
// does that crashed at the same moment: it publishes no wills.
func haunt(t *testing.T, d *domain, id string, f *fuse) {
	t.Helper()
	c := connectPlain(t, "", "keeper", WithDialer(d.dial))
	var kept []PlainMessage
	for _, filter := range []string{"padme/v1/default/presence/" + id, "padme/v1/default/ep/+/" + id + "/+"} {
		stop, err := c.Subscribe(testContext(t), filter, func(m PlainMessage) { kept = append(kept, m) })
		if err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		stop()
	}
	f.blow(true)
	settle(time.Second)
	for _, m := range kept {
		if err := c.Publish(testContext(t), m.Topic, m.Payload, 1, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(testContext(t)); err != nil || len(kept) < 2 {
		t.Fatalf("%d kept messages, %v", len(kept), err)
	}
}

func matches(t *testing.T, when string, of interface{ Matched() []Peer }, want int) {
	t.Helper()
	if got := of.Matched(); len(got) != want {
		t.Errorf("%s: %d matches, want %d: %v", when, len(got), want, got)
	}
}

// Nobody waits for ever for a reader that died together with a broker that comes back and
// has forgotten nothing.
func TestAReaderThatDiedWithTheBrokerIsGivenUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, cable := d.joinBy("a")
		b, dies := d.joinBy("b")
		few := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 5}
		w := writerOf(t, topicOf[pose](t, a, "p"), few)
		r := readerOf(t, topicOf[pose](t, b, "p"), few)
		other := writerOf(t, topicOf[pose](t, b, "q"), QoS{})
		reads := readerOf(t, topicOf[pose](t, a, "q"), QoS{})
		awaitReaders(t, w, 1)
		awaitReaders(t, other, 1)
		xs(r)
		cable.blow(true)
		haunt(t, d, "b", dies)
		cable.blow(false)
		settle(20 * time.Second)
		matches(t, "a writer that is back", w, 1)
		late := writerOf(t, topicOf[pose](t, d.join("late"), "p"), few)
		settle(20 * time.Second)
		matches(t, "after a while", w, 0)
		matches(t, "a reader after a while", reads, 0)
		matches(t, "a writer that came later", late, 1)
		settle(20 * time.Second)
		matches(t, "later after a while", late, 0)
		settle(10 * time.Second) // it may only have lost its connection
		for _, w := range []*Writer[pose]{w, late} {
			for i := range 20 {
				write(t, w, poseOf("r", float64(i)))
			}
		}
		dies.blow(false)
		settle(10 * time.Second)
		matches(t, "with one that was dead", w, 1)
		matches(t, "with one that was dead", late, 1)
		matches(t, "with one that was dead, the reader", reads, 1)
	})
}

// Who has nothing to say is asked, and stays.
func TestWhoIsQuietIsNotGivenUp(t *testing.T) {
	for name, q := range map[string]QoS{"best effort": {}, "reliable": {Reliability: Reliable}} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, cable := d.joinBy("a")
				w := writerOf(t, topicOf[pose](t, a, "p"), q)
				r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
				settle(5 * time.Minute)
				matches(t, "the writer", w, 1)
				matches(t, "the reader", r, 1)
				cable.blow(true)
				settle(time.Second)
				cable.blow(false)
				settle(5 * time.Minute)
				matches(t, "the writer that was away", w, 1)
				matches(t, "its reader", r, 1)
			})
		})
	}
}
