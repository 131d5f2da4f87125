package pubsub

import (
	"testing"

	"padme/tests/poll"
)

// On a real network, at whatever broker was chosen: those who move meet where they go,
// with what was written before.
func TestThoseWhoMoveMeet(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[pose](t, a, "p"), in(local, "p1"))
	r := readerOf(t, topicOf[pose](t, b, "p"), in(local, "p2"))
	expect := func(where string, want ...float64) {
		t.Helper()
		var got []float64
		for _, s := range collect(t, r, len(want)) {
			if got = append(got, s.Data.X); !s.Info.Valid || s.Data.X != want[len(got)-1] {
				t.Fatalf("%s: got %v, want %v", where, got, want)
			}
		}
	}
	gone := func() {
		t.Helper()
		poll.Until(t, "the two do not match any more", func() bool {
			n, _ := w.send.ConfirmedReaders()
			return n == 0 && matchedPeers(r) == 0
		})
		r.Take(100, NoWriters) // it has lost its instance
	}
	write(t, w, poseOf("r", 1))
	moveReader(t, r, "p1")
	expect("the reader has moved in", 1)
	for i := range 100 {
		write(t, w, poseOf("r", float64(2+i)))
	}
	moveWriter(t, w, "p2")
	for i := range 100 {
		expect("what was on its way", float64(2+i))
	}
	gone()
	moveReader(t, r, "p?")
	awaitReaders(t, w, 1)
	for i := range 101 {
		expect("a late joiner again", float64(1+i))
	}
	write(t, w, poseOf("r", 200))
	expect("it goes on", 200)
	if err := w.WaitAcked(testContext(t)); err != nil {
		t.Error(err)
	}
	silent(t, "the reader", r.ep.events)
	silent(t, "the writer", w.ep.events)
}
