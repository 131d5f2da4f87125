package pubsub

import (
	"fmt"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/wire"
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
			b.ask()
		}
		pass(0)
		writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		b.ask()
		pass(10 * time.Millisecond)
		if n := put() - before; n > 30 {
			t.Errorf("100 questions cost %d packets", n)
		}
		pass(time.Minute)
		if n := put() - before; n < 20 || n > 60 {
			t.Errorf("all questions cost %d packets", n)
		}
		if left := len(a.answers.again); left > 0 {
			t.Errorf("%d who asked are remembered", left)
		}
	})
}

// What is told is what was announced: nothing is marshaled while everything else waits.
func TestAnAnswerIsWhatWasAnnounced(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		readerOf(t, topicOf[pose](t, b, "p"), QoS{})
		pass(time.Second)
		a.exchange.mu.Lock()
		w.ep.json.Type = "another"
		a.exchange.mu.Unlock()
		b.askOne("a", "p")
		pass(time.Second)
		b.exchange.mu.Lock()
		defer b.exchange.mu.Unlock()
		if e := b.exchange.remoteEndpoint("p", wire.GUID(w.GUID())); e == nil || e.Type == "another" {
			t.Errorf("told %+v", e)
		}
	})
}

// One participant cannot take the room for the endpoints of all.
func TestOneParticipantDoesNotFillTheEndpoints(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		x := &d.join("a").exchange
		if _, err := x.attend(testContext(t), "t"); err != nil {
			t.Fatal(err)
		}
		payload := []byte(`{"kind":"writer","topic":"t","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1}}`)
		for i := range maxEndpoints + 1 {
			x.announced(fmt.Sprintf("ep/t/stranger/w%d", i), payload, false)
		}
		x.announced("ep/t/other/w1", payload, false)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.remote["other"][place{"t", "w1"}] == nil {
			t.Error("there is no room for others")
		}
		if x.size != len(x.remote["stranger"])+1 {
			t.Errorf("%d are counted, there are %d", x.size, len(x.remote["stranger"])+1)
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
		wire.cut()
		pass(time.Second)
		if err := closes.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wire.mend()
		pass(time.Minute)
		if n, _ := r.recv.Matches(); n != 1 {
			t.Errorf("%d writers match, there is one", n)
		}
		if got := states(r); got["r"] != NoWriters {
			t.Errorf("the states are %v", got)
		}
	})
}
