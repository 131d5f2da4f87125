package classic

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// jumble makes every message take up to most, each its own time.
func (w *world) jumble(seed uint64, most protocol.Duration) {
	r := rand.New(rand.NewPCG(seed, 1))
	w.latency = func(int, int) protocol.Duration { return protocol.Duration(r.Int64N(int64(most) + 1)) }
}

// check fails the test with what the world noted, or with an entry out of turn.
func (w *world) check(t interface{ Fatalf(string, ...any) }, ordered bool) {
	if w.failure != nil {
		t.Fatalf("%v", w.failure)
	}
	for k := 1; k < len(w.entries) && ordered; k++ {
		a, b := w.entries[k-1], w.entries[k]
		if cmp.Or(cmp.Compare(a.id.Clock, b.id.Clock), cmp.Compare(a.who, b.who)) >= 0 {
			t.Fatalf("entry %d is of ⟨%s,%d⟩, after ⟨%s,%d⟩", k, w.names[b.who], b.id.Clock, w.names[a.who], a.id.Clock)
		}
	}
}

// Whatever is asked, withdrawn and left, and however long messages take: one at a
// time is inside and fences rise (the world sees to that), requests are served in
// order where it is promised, and in the end all are served.
func TestProperties(t *testing.T) {
	for _, a := range All() {
		if a.Name == VotingForgetful.Name {
			continue
		}
		t.Run(a.Name, rapid.MakeCheck(func(t *rapid.T) {
			n := rapid.IntRange(1, 7).Draw(t, "N")
			w := newWorld(a, letters(n), rapid.Uint64Range(0, 1<<20).Draw(t, "seed"))
			w.jumble(rapid.Uint64Range(0, 1<<20).Draw(t, "latencies"), 5*tm)
			who := rapid.IntRange(0, n-1)
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				w.random(t, who.Draw(t, "who"))
			}
			if a.Name != MaekawaNaive.Name {
				w.serve(tm)
			}
			w.check(t, a.Name == Lamport.Name || a.Name == RicartAgrawala.Name)
		}))
	}
}

// random does something at participant i that an application may do there.
func (w *world) random(t *rapid.T, i int) {
	n := w.nodes[i]
	switch rapid.SampledFrom([]string{"ask", "ask", "leave", "leave", "withdraw", "prioritize", "pass", "pass"}).Draw(t, "do") {
	case "ask":
		in := protocol.Input{Fixed: rapid.Bool().Draw(t, "fixed")}
		in.Priority = rapid.Int64Range(0, 7).Draw(t, "priority")
		w.acquire(i, in)
	case "leave":
		if n.inside != 0 {
			w.leave(i)
		}
	case "withdraw":
		if len(n.refs) > 0 {
			w.withdraw(i, rapid.IntRange(0, len(n.refs)-1).Draw(t, "which"))
		}
	case "prioritize":
		w.step(i, protocol.Input{Kind: protocol.Prioritize, Priority: rapid.Int64Range(0, 7).Draw(t, "priority")})
	case "pass":
		w.pass(protocol.Duration(rapid.Int64Range(0, int64(8*tm)).Draw(t, "time")))
	}
}

// Many at once is where Maekawa's voters wait for each other. However the messages
// fall, the cure at most doubles their number.
func TestMaekawaServesEverybodyInAnyOrder(t *testing.T) {
	for _, n := range []int{4, 9, 16, 23} {
		for seed := range uint64(60) {
			w := newWorld(Maekawa, letters(n), seed)
			w.jumble(seed, 10*tm)
			for range 3 {
				for i := range n {
					w.ask(i)
				}
				w.serve(protocol.Duration(seed%3) * tm)
			}
			w.check(t, false)
			w.settle()
			least := 0
			for i := range n {
				least += 3 * 3 * (len(votingSet(n, i)) - 1)
			}
			if len(w.entries) != 3*n || w.counted < least || w.counted > 2*least {
				t.Fatalf("N=%d seed=%d: %d entries, want %d, with %d messages, between %d and %d", n, seed, len(w.entries), 3*n, w.counted, least, 2*least)
			}
		}
	}
}

// Voting goes on without up to ⌈N/2⌉−1 participants.
func TestVotingSurvivesCrashes(t *testing.T) {
	for n := 3; n <= 9; n++ {
		for seed := range uint64(10) {
			w := newWorld(Voting, letters(n), seed)
			w.jumble(seed, 2*tm)
			dead := (n+1)/2 - 1
			for i := range dead {
				w.nodes[i].crashed = true
			}
			for range 3 {
				for i := dead; i < n; i++ {
					w.ask(i)
				}
			}
			w.serve(tm)
			w.check(t, false)
			if len(w.entries) != 3*(n-dead) {
				t.Fatalf("N=%d seed=%d: %d entries, want %d", n, seed, len(w.entries), 3*(n-dead))
			}
		}
	}
}
