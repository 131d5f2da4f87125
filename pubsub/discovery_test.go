package pubsub

import (
	"testing"
	"time"

	"padme/pubsub/internal/connection"
)

// However often one asks, the others do not spend their queues, through which lock
// messages go, on the answers. The last question is answered.
func TestQuestionsAreNotAnsweredOneByOne(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b := d.join("a"), d.join("b")
		for range 10 {
			writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		}
		pass(time.Minute)
		put := a.main.Out.(*connection.Queue).Last
		before := put()
		for range 100 {
			b.directory.Ask()
		}
		pass(0)
		writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		b.directory.Ask()
		pass(10 * time.Millisecond)
		if n := put() - before; n > 30 {
			t.Errorf("100 questions cost %d packets", n)
		}
		pass(time.Minute)
		if n := put() - before; n < 20 || n > 60 {
			t.Errorf("all questions cost %d packets", n)
		}
	})
}

// Who was away when a writer or reader was closed hears of it when it is back, from a
// participant that was there all the time.
func TestWhoWasAwayHearsWhatWasClosed(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b := d.join("a"), d.join("b")
		away, wire := d.joinBy("away")
		q := QoS{Reliability: Reliable}
		closes := writerOf(t, topicOf[pose](t, a, "p"), q)
		writerOf(t, topicOf[pose](t, b, "p"), q)
		r := readerOf(t, topicOf[pose](t, away, "p"), q)
		awaitReaders(t, closes, 1)
		write(t, closes, pose{Robot: "r"})
		pass(time.Second)
		wire.Cut()
		pass(time.Second)
		if err := closes.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wire.Restore()
		pass(time.Minute)
		if n, _ := r.recv.Matches(); n != 1 {
			t.Errorf("%d writers match, there is one", n)
		}
		if got := states(r); got["r"] != NoWriters {
			t.Errorf("the states are %v", got)
		}
	})
}
