package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

const clientAnswers, allAnswers = 300, 10_000

// narrow is a connection that has room for some answers.
type narrow struct {
	answers
	room    int
	sent    []string // the clients
	dropped int
	ends    chan struct{}
	err     error // of publishing, if not nil
}

func newNarrow() *narrow {
	n := &narrow{ends: make(chan struct{})}
	n.answers = answers{each: clientAnswers, most: allAnswers, ended: n.ends, dropped: func(k int) { n.dropped += k }, publish: func(a *answer) error {
		switch {
		case n.err != nil:
			return n.err
		case n.room == 0:
			return pubsub.ErrBacklog
		}
		n.room--
		n.sent = append(n.sent, a.client)
		return nil
	}}
	return n
}

// widen makes room, and waits until it is used.
func (n *narrow) widen(room int) {
	n.mu.Lock()
	n.room += room
	n.mu.Unlock()
	time.Sleep(2 * answersWait)
	synctest.Wait()
}

// An answer to somebody does not wait behind hundreds to another, which are bounded.
func TestAnswersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNarrow()
		n.room = 1
		for i := range clientAnswers + 2 {
			if err := n.send(&answer{client: "flood"}); (err != nil) != (i > clientAnswers) { // the first was sent
				t.Fatalf("answer %d to the flood: %v", i, err)
			}
		}
		for _, client := range []string{"a", "b", "a"} {
			if err := n.send(&answer{client: client}); err != nil {
				t.Errorf("to %s: %v", client, err)
			}
		}
		n.widen(6)
		if want := []string{"flood", "flood", "a", "b", "flood", "a", "flood"}; !slices.Equal(n.sent, want) {
			t.Errorf("sent to %q, want %q", n.sent, want)
		}
		n.widen(clientAnswers)
		n.close()
		if len(n.sent) != clientAnswers+4 || n.dropped != 0 {
			t.Errorf("%d were sent, %d dropped", len(n.sent), n.dropped)
		}
		if err := n.send(&answer{client: "a"}); err != nil {
			t.Error(err)
		}
		n.room = 0
		if err := n.send(&answer{client: "a"}); !errors.Is(err, pubsub.ErrBacklog) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// All of them together are bounded, too.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNarrow()
		kept := 0
		for i := range 2 * allAnswers {
			if n.send(&answer{client: string(rune('a' + i/100))}) == nil {
				kept++
			}
		}
		if kept != allAnswers {
			t.Errorf("%d answers wait", kept)
		}
		n.widen(kept)
		n.close()
	})
}

// What finds no room for a second is dropped, as clients ask again by then, and what cannot be
// sent at all at once.
func TestStaleAnswersAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNarrow()
		began := time.Now()
		for range 10 {
			_ = n.send(&answer{client: "a"})
		}
		time.Sleep(answersStale / 2)
		n.widen(1) // something moves
		n.close()
		if took := time.Since(began); len(n.sent) != 1 || n.dropped != 9 || took < answersStale*3/2 || took > 2*answersStale {
			t.Errorf("%d were sent, %d dropped, after %v", len(n.sent), n.dropped, took)
		}

		n = newNarrow()
		for range 10 {
			_ = n.send(&answer{client: "a"})
		}
		n.mu.Lock()
		n.err = pubsub.ErrClosed
		n.mu.Unlock()
		close(n.ends)
		began = time.Now()
		n.close()
		if n.dropped != 10 || time.Since(began) > answersWait {
			t.Errorf("%d dropped after %v", n.dropped, time.Since(began))
		}
	})
}

// Lock topics take turns to do what clients ask: while others have all turns, one says nothing.
func TestLockTopicsTakeTurns(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("gw", s.broker.Dial)
		defer func() { _ = p.Close(context.Background()) }()
		server, err := qosmutex.NewServer(p, qosmutex.WithClock(s.clock))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		o, err := optionsOf(nil)
		if err != nil {
			t.Fatal(err)
		}
		g, ended := newGateway(o, server), make(chan error)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { ended <- g.run(ctx) }()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", "", jsonlock.Granted)
		for range cap(g.turns) {
			g.turns <- struct{}{}
		}
		c.send(jsonlock.Query, "1", "")
		time.Sleep(time.Second)
		if len(c.answers) > 0 {
			t.Errorf("without a turn: %+v", <-c.answers)
		}
		for range cap(g.turns) {
			<-g.turns
		}
		c.await("1", jsonlock.Granted)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
