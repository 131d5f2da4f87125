package classic

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// paths is what Naimi and Trehel's trees do, by the book: whoever asks becomes the
// father of everybody on the way to the root, and the root itself.
type paths []int

func newPaths(n int) paths {
	p := make(paths, n)
	for i := range p {
		p[i] = 0
	}
	return p
}

// ask is the number of Requests of an uncontended request of i.
func (p paths) ask(i int) int {
	hops := 0
	for at := i; ; hops++ {
		father := p[at]
		p[at] = i
		if father == at {
			return hops
		}
		at = father
	}
}

// uncontended gives the messages of an entry of i when nobody else wants to enter,
// after one by last (0 had the token before the first).
var uncontended = map[string]func(n int) func(i, last int) int{
	"central":         func(int) func(i, last int) int { return func(i, _ int) int { return 3 * min(i, 1) } },
	"central-fifo":    func(int) func(i, last int) int { return func(i, _ int) int { return 3 * min(i, 1) } },
	"lamport":         func(n int) func(i, last int) int { return func(int, int) int { return 3 * (n - 1) } },
	"ricart-agrawala": func(n int) func(i, last int) int { return func(int, int) int { return 2 * (n - 1) } },
	"maekawa":         votes,
	"maekawa-naive":   votes,
	"voting":          func(n int) func(i, last int) int { return func(int, int) int { return 3 * (n - 1) } },
	"voting-forgetful": func(n int) func(i, last int) int {
		return func(int, int) int { return 3 * (n - 1) }
	},
	"suzuki-kasami": func(n int) func(i, last int) int {
		return func(i, last int) int {
			if i == last {
				return 0
			}
			return n
		}
	},
	"naimi-trehel": func(n int) func(i, last int) int {
		p := newPaths(n)
		return func(i, _ int) int {
			hops := p.ask(i)
			return hops + min(hops, 1)
		}
	},
}

func votes(n int) func(i, last int) int {
	return func(i, _ int) int { return 3 * (len(votingSet(n, i)) - 1) }
}

// One participant after another asks, enters and leaves, and everything settles
// before the next: forward, backward and twice each.
func TestMessagesWithoutContention(t *testing.T) {
	for _, a := range All() {
		formula := uncontended[a.Name]
		if formula == nil {
			continue // the ring has a test of its own
		}
		t.Run(a.Name, func(t *testing.T) {
			for n := 1; n <= 12; n++ {
				w := newWorld(a, letters(n), 1)
				expected, last := formula(n), 0
				one := func(i int) {
					before := w.counted
					w.ask(i)
					w.settle()
					w.leave(i)
					w.settle()
					if got, want := w.counted-before, expected(i, last); got != want || w.failure != nil {
						t.Fatalf("N=%d: entry of %d after one of %d: %d messages, want %d (%v)", n, i, last, got, want, w.failure)
					}
					last = i
				}
				for i := range n {
					one(i)
				}
				for i := range n {
					one(n - 1 - i)
				}
				for i := range n {
					one(i)
					one(i)
				}
			}
		})
	}
}

// saturated has everybody ask at once, and again at the instant of leaving, rounds
// times each.
func saturated(a protocol.Algorithm, n, rounds int, hold protocol.Duration) *world {
	w := newWorld(a, letters(n), 1)
	asked := make([]int, n)
	for i := range n {
		asked[i]++
		w.ask(i)
	}
	for w.failure == nil && len(w.entries) < n*rounds {
		if len(w.inside) == 0 {
			if !w.advance(protocol.Never - 1) {
				w.fail("nothing will ever happen")
			}
			continue
		}
		i := w.inside[0]
		w.pass(hold)
		if asked[i] < rounds {
			asked[i]++
			w.ask(i) // waits at the machine until the Leave, and is asked with it
		}
		w.leave(i)
	}
	if w.failure == nil {
		w.leave(w.inside[0])
	}
	w.settle()
	return w
}

// Everybody always wants to enter. The counts are of the whole run, to the last
// Release.
func TestMessagesWhenEverybodyContends(t *testing.T) {
	const rounds = 40
	exact := map[string]func(n int) int{
		"central":         func(n int) int { return 3 * (n - 1) * rounds },
		"central-fifo":    func(n int) int { return 3 * (n - 1) * rounds },
		"lamport":         func(n int) int { return 3 * (n - 1) * n * rounds },
		"ricart-agrawala": func(n int) int { return 2 * (n - 1) * n * rounds },
		// The first entry is where the token is.
		"suzuki-kasami": func(n int) int { return n * (n*rounds - 1) },
	}
	for _, a := range All() {
		for n := 2; n <= 12; n++ {
			if exact[a.Name] == nil {
				continue
			}
			w := saturated(a, n, rounds, 5*tm)
			if want := exact[a.Name](n); w.counted != want || w.failure != nil {
				t.Errorf("%s: N=%d: %d messages in %d entries, want %d (%v)", a.Name, n, w.counted, len(w.entries), want, w.failure)
			}
		}
	}
}

func TestMaekawaMessagesWhenEverybodyContends(t *testing.T) {
	for n := 2; n <= 12; n++ {
		const rounds = 40
		least := 0
		for i := range n {
			least += 3 * (len(votingSet(n, i)) - 1) * rounds
		}
		for _, hold := range []protocol.Duration{0, tm, 5 * tm} {
			w := saturated(Maekawa, n, rounds, hold)
			if w.counted < least || w.counted > 2*least || w.failure != nil {
				t.Errorf("N=%d: %d messages are not between %d and %d (%v)", n, w.counted, least, 2*least, w.failure)
			}
			plain := w.sent[protocol.KindRequest] + w.sent[protocol.KindRelease] + w.sent[protocol.KindReply] - w.sent[protocol.KindYield]
			if plain != least {
				t.Errorf("N=%d: Requests, Releases and final Replies are %d, want %d", n, plain, least)
			}
		}
	}
}

// Everybody contends, and every request finds its way before the next is made: the
// hops are those of path reversal, and each entry but the first costs the token. The
// sum is within the amortised bound of Ginat, Sleator and Tarjan: log₂ N hops for each
// request, and N−1 once.
func TestNaimiTrehelMessagesWhenEverybodyContends(t *testing.T) {
	for n := 2; n <= 12; n++ {
		w, p := newWorld(NaimiTrehel, letters(n), 1), newPaths(n)
		const rounds = 40
		hops := 0
		for i := range n {
			w.ask(i)
			w.settle()
			hops += p.ask(i)
		}
		for len(w.entries) < n*rounds && w.failure == nil {
			i := w.inside[0]
			w.leave(i)
			w.ask(i)
			w.settle()
			hops += p.ask(i)
		}
		if want := hops + len(w.entries) - 1; w.counted != want || w.failure != nil {
			t.Errorf("N=%d: %d messages, want %d (%v)", n, w.counted, want, w.failure)
		}
		requests := len(w.entries) + n - 1 // one waits at each of the others
		if bound := float64(requests)*math.Log2(float64(n)) + float64(n-1); float64(hops) > bound {
			t.Errorf("N=%d: %d hops of %d requests, more than %.0f", n, hops, requests, bound)
		}
	}
}

// The token of the ring is all that is counted once it has been everywhere.
func TestTokenRingMessages(t *testing.T) {
	for n := 1; n <= 12; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			// Everybody contends: a hop per entry, and one Request from each but 0, who
			// have never seen the token.
			const rounds = 40
			w := saturated(TokenRing, n, rounds, 5*tm)
			last := w.entries[len(w.entries)-1]
			if want := n*rounds - 1 + n - 1; n > 1 && last.sent != want || w.failure != nil {
				t.Errorf("all contend: %d messages to the last entry, want %d (%v)", last.sent, want, w.failure)
			}
			// One alone contends: the token goes round.
			for i := range n {
				w.ask(i)
				w.serve(tm)
				for range 5 {
					before := w.counted
					w.ask(i)
					w.serve(tm)
					if got := w.counted - before; n > 1 && got != n || n == 1 && got != 0 {
						t.Errorf("%d alone contends: %d messages per entry, want %d", i, got, n)
					}
				}
			}
			// Nobody contends: after one round, a hop for each rest and its flight.
			w.pass(protocol.Duration(n) * tm)
			before := w.counted
			w.pass(100 * 2 * tm)
			if got := w.counted - before; n > 1 && got != 100 || n == 1 && got != 0 {
				t.Errorf("idle: %d messages in 100 rests and flights", got)
			}
		})
	}
}

// Between two entries the token makes the hops from the one to the other.
func TestTokenRingHopsBetweenEntries(t *testing.T) {
	for n := 2; n <= 12; n++ {
		for from := range n {
			for to := range n {
				w := newWorld(TokenRing, letters(n), 1)
				w.ask(from)
				w.settle()
				w.ask(to)
				w.pass(10 * protocol.Second) // the Request that starts it is over
				before := w.counted
				w.leave(from)
				w.serve(0)
				hops := (to-from+n-1)%n + 1
				last := w.entries[1]
				if got := last.sent - before; got != hops || last.delay != protocol.Duration(hops)*tm || w.failure != nil {
					t.Errorf("N=%d, %d to %d: %d hops, delay %d, want %d (%v)", n, from, to, got, last.delay, hops, w.failure)
				}
			}
		}
	}
}

// A round costs a Request and a Reply to and from each of the others. Every entry
// ends with a round that was won, and returned to at least a majority.
func TestVotingMessagesWhenEverybodyContends(t *testing.T) {
	for n := 2; n <= 9; n++ {
		const rounds = 10
		w := saturated(Voting, n, rounds, tm)
		requests, replies, releases := w.sent[protocol.KindRequest], w.sent[protocol.KindReply], w.sent[protocol.KindRelease]
		if requests%(n-1) != 0 || replies != requests || releases > requests || w.failure != nil {
			t.Errorf("N=%d: %d Requests, %d Replies, %d Releases (%v)", n, requests, replies, releases, w.failure)
		}
		if least := (2*(n-1) + n/2) * n * rounds; w.counted < least {
			t.Errorf("N=%d: %d messages, fewer than the %d of the rounds that were won", n, w.counted, least)
		}
	}
}

// Only a token that rests wants to be woken, and it rests a while even if messages
// take no time and Timing.Hop is 0.
func TestTokenRingRests(t *testing.T) {
	hop := func(c *protocol.Config) { c.Timing.Hop = 0 }
	w := newWorldWith(TokenRing, letters(4), 1, hop)
	w.latency = func(int, int) protocol.Duration { return 0 }
	w.onEnter = func(int) { w.awake(t, 0) }
	for i := range 4 {
		w.ask(i)
		w.settle()
		w.leave(i)
		w.settle()
		w.awake(t, 1)
		before := w.counted
		w.pass(10 * protocol.Millisecond)
		if got := w.counted - before; got != 10 || w.failure != nil {
			t.Errorf("%d hops in 10 ms, want 10 (%v)", got, w.failure)
		}
	}
	rests := slices.IndexFunc(w.nodes, func(n *node) bool { return n.wakeAt != protocol.Never })
	w.ask(rests)
	w.awake(t, 0)
}

// B's Request is slow: the token has been round when it comes, and rests at A.
func TestTokenRingGoesOnWhenAsked(t *testing.T) {
	w := newWorld(TokenRing, letters(3), 1)
	w.manual = true
	w.ask(1)
	w.ask(0)
	w.leave(0)
	w.deliver([2]int{0, 1})
	w.leave(1)
	w.ask(0)
	w.deliver([2]int{1, 2})
	w.deliver([2]int{2, 0})
	w.leave(0)
	w.deliver([2]int{0, 1})
	w.deliver([2]int{1, 2})
	w.deliver([2]int{2, 0})
	w.awake(t, 1)
	before := w.counted
	w.deliver([2]int{1, 0})
	w.awake(t, 0)
	if w.counted != before+1 || w.failure != nil {
		t.Errorf("%d messages, want 1 (%v)", w.counted-before, w.failure)
	}
}

func (w *world) awake(t *testing.T, want int) {
	t.Helper()
	got := 0
	for _, n := range w.nodes {
		if n.wakeAt != protocol.Never {
			got++
		}
	}
	if got != want {
		t.Errorf("%d want to be woken, want %d", got, want)
	}
}
