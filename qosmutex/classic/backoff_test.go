package classic

import (
	"testing"

	"padme/qosmutex/protocol"
)

// trip is the round trip of Voting in a world where messages take tm.
const trip = 2 * tm

// pause is how long participant i, whose round is lost at this instant, waits for its
// next.
func (w *world) pause(i int) protocol.Duration { return w.nodes[i].wakeAt - w.now }

// longest is the longest pause of many seeds, of which each must be above 0.
func longest(t *testing.T, run func(seed uint64) protocol.Duration) protocol.Duration {
	t.Helper()
	var most protocol.Duration
	for seed := range uint64(200) {
		d := run(seed)
		if d <= 0 {
			t.Fatalf("seed %d: a pause of %d ns", seed, d)
		}
		most = max(most, d)
	}
	return most
}

// between checks that pauses fill a window.
func between(t *testing.T, what string, most, window protocol.Duration) {
	t.Helper()
	if most > window+1 || most < window*9/10 {
		t.Errorf("%s: the longest pause is %d, want just below %d", what, most, window)
	}
}

func TestBackOffAmongEquals(t *testing.T) {
	most := longest(t, func(seed uint64) protocol.Duration {
		w := newWorld(Voting, letters(3), seed)
		for i := range 3 {
			w.ask(i) // each has its own vote
		}
		w.pass(trip)
		return w.pause(0)
	})
	between(t, "nobody is ahead", most, trip)
}

func TestBackOffGrowsWithEveryRoundAndWithThePlace(t *testing.T) {
	for lost := range 5 {
		most := longest(t, func(seed uint64) protocol.Duration {
			w := newWorld(Voting, letters(3), seed)
			w.ask(1)
			w.settle()
			w.ask(0)
			w.pass(trip)
			for range lost {
				w.pass(w.pause(0)) // the next round begins, and is lost
				w.pass(trip)
			}
			return w.pause(0)
		})
		between(t, "one is ahead", most, 2*trip<<lost)
	}
}

// deliverAll delivers everything that is on its way, and some of what follows from it.
func (w *world) deliverAll() {
	for from := range w.nodes {
		for to := range w.nodes {
			if c := w.wires[[2]int{from, to}]; c != nil {
				for range len(c.packets) {
					w.deliver([2]int{from, to})
				}
			}
		}
	}
}

// Who was ahead in an earlier round does not count.
func TestBackOffLooksAtOneRound(t *testing.T) {
	most := longest(t, func(seed uint64) protocol.Duration {
		w := newWorld(Voting, letters(3), seed)
		w.ask(1)
		w.settle()
		w.ask(0)
		w.pass(trip)
		again := w.now + w.pause(0)
		w.manual = true // C takes B's place before A's next round
		w.leave(1)
		w.deliverAll()
		w.ask(2)
		w.deliverAll()
		w.deliverAll()
		w.pass(again - w.now)
		w.deliverAll()
		w.deliverAll()
		return w.pause(0)
	})
	between(t, "one is ahead, another was", most, 2*trip<<1)
}

// An entry ends the doubling: the next round has the patience of the first.
func TestBackOffStartsAgain(t *testing.T) {
	w := newWorld(Voting, letters(3), 1)
	w.ask(1)
	w.settle()
	w.ask(0)
	w.pass(protocol.Second)
	w.leave(1)
	w.serve(0)
	w.settle()
	w.ask(0)
	if got := w.pause(0); got != 2*trip || w.failure != nil {
		t.Errorf("the patience is %d, want %d (%v)", got, 2*trip, w.failure)
	}
}

// Messages take five times as long as Timing.Hop says. Patience grows until a round
// is answered, and the round trip is known from then on.
func TestPatienceLearnsTheRoundTrip(t *testing.T) {
	w := newWorld(Voting, letters(3), 1)
	w.latency = func(int, int) protocol.Duration { return 5 * tm }
	w.ask(0)
	w.serve(0)
	w.settle()
	rounds := w.sent[protocol.KindRequest] / 2
	w.ask(0)
	if got := w.pause(0); got != 2*5*trip || rounds < 3 || w.failure != nil {
		t.Errorf("the patience is %d after %d rounds, want %d after 3 or more (%v)", got, rounds, 10*trip, w.failure)
	}
}
