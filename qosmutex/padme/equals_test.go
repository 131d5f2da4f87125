package padme

import (
	"fmt"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// takeTurns lets everybody ask again at each leave, for so many entries, and counts. "B/1" is a
// client of B. Time for a beacon passes after each so many entries; 0 is never.
func takeTurns(t *testing.T, tree string, askers []string, entries, beacon int) map[string]int {
	t.Helper()
	w := newWorld()
	play(t, w, tree)
	return keepAsking(t, w, askers, entries, beacon)
}

func keepAsking(t *testing.T, w *world, askers []string, entries, beacon int) map[string]int {
	t.Helper()
	w.quiet = true
	who, count := map[uint64]string{}, map[string]int{}
	ask := func(asker string) {
		t.Helper()
		in := protocol.Input{Kind: protocol.Acquire, Resource: "x"}
		node, client, _ := strings.Cut(asker, "/")
		in.Client = client
		if err := w.acquire(w.nodes[node], &in); err != nil {
			t.Fatal(err)
		}
		who[in.Ref] = asker
		w.settle()
	}
	for _, a := range askers {
		ask(a)
	}
	for i := 1; i <= entries; i++ {
		for _, name := range w.order {
			n := w.nodes[name]
			g, inside := n.inside["x"]
			if !inside {
				continue
			}
			count[who[g.Ref]]++
			ask(who[g.Ref])
			if err := w.end(n, "leave", "x"); err != nil {
				t.Fatal(err)
			}
			w.settle()
			break
		}
		if beacon > 0 && i%beacon == 0 {
			w.advance(700*protocol.Millisecond, true)
		}
	}
	w.sound(t)
	return count
}

// Equals enter equally often: the clients of one gateway, wherever it is in the tree and however
// rarely it hears from the root, and participants, under Replace too.
func TestEqualsEnterEquallyOften(t *testing.T) {
	const star, deep = "tree A(B C D) fanout=4 p=A9,B5,C5,D5 models=", "tree A(B(D E F) C) fanout=4 p=A9,B9,C5,D5,E5,F5 models="
	clients := []string{"B/1", "B/2", "B/3", "B/4", "C", "D"}
	for _, c := range []struct {
		tree   string
		askers []string
		models string
	}{
		{star, clients, "level-forward-forward-forward"},
		{star, clients, "level-replace-forward-forward"},
		{star, clients, "fair-forward-forward-forward"},
		{star, clients, "fair-replace-forward-forward"},
		{star, clients, "fair-forward-forward-retain"},
		{star, clients, "fair-forward-forward-direct"},
		{star, clients, "level-forward-forward-direct"},
		{star, []string{"A/1", "A/2", "A/3", "C", "D", "B"}, "fair-forward-forward-forward"},
		{deep, []string{"C", "D", "E", "F"}, "level-forward-forward-forward"},
		{deep, []string{"C", "D", "E", "F"}, "level-replace-forward-forward"},
		{deep, []string{"B/1", "B/2", "C", "D", "E", "F"}, "fair-replace-forward-forward"},
	} {
		for _, beacon := range []int{0, 50, 10} {
			t.Run(fmt.Sprint(c.models, len(c.askers), c.tree[:12], beacon), func(t *testing.T) {
				const rounds = 50
				got := takeTurns(t, c.tree+c.models, c.askers, rounds*len(c.askers), beacon)
				for _, a := range c.askers {
					if got[a] < rounds*9/10 || got[a] > rounds*11/10 {
						t.Fatalf("%v, want %d each", got, rounds)
					}
				}
			})
		}
	}
}

// A participant whose clock is far ahead, as after a restart of the root, is in turn with clients.
func TestClientsAreInTurnWithAClockThatIsAhead(t *testing.T) {
	for _, models := range []string{"level-replace-forward-forward", "fair-forward-forward-forward"} {
		w := newWorld()
		play(t, w, "tree A(B C) fanout=4 p=A5,B5,C5 models="+models, "request A")
		for range 300 {
			play(t, w, "request C", "withdraw C")
		}
		play(t, w, "leave A")
		const rounds = 50
		got := keepAsking(t, w, []string{"A/1", "A/2", "C"}, 3*rounds, 0)
		for asker, n := range got {
			if n < rounds*8/10 || n > rounds*12/10 {
				t.Errorf("%s: %s: %d of %v", models, asker, n, got)
			}
		}
	}
}

// Names of requests for clients run ahead of clocks. What names one that is not known any more
// does not drive a clock there, or its participant's requests would come last for long.
func TestNamesOfClientsDriveNoClock(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C) models=fair-forward-forward-forward fanout=4 p=A0,B1,C1", "request A")
	for range 100 {
		play(t, w, "request B client=b", "withdraw B")
	}
	play(t, w, "request B client=b", "manual", "leave A", "withdraw B", "settle") // the Reply crosses the Withdraw
	for _, name := range w.order {
		if m := w.nodes[name].machine; m.clock > 3 {
			t.Errorf("the clock of %s is %d", name, m.clock)
		}
	}
}

// A request is admitted for the place that it gets: behind those of the same deadline.
func TestARequestIsAdmittedBehindItsEquals(t *testing.T) {
	for stay, refused := range map[string]bool{"1920ms": true, "100ms": false} {
		w := newWorld()
		play(t, w, "tree A(B C) models=deadline-forward-forward-forward fanout=4 p=A0,B5,C5",
			"request A within=1s hold=100ms", "request B within=2s hold="+stay, "request C within=2s hold=3s")
		if got := len(w.nodes["C"].refs) == 0; got != refused {
			t.Errorf("behind a stay of %s: refused %v", stay, got)
		}
	}
}

// What waits when the models change came when it came.
func TestAChangeOfModelsKeepsTheOrderOfArrival(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C D) models=fair-forward-forward-forward fanout=4 p=A0,B5,C5,D5", "request A",
		"request B", "request B", "request C", "models A level-forward-forward-forward")
	w.trace = nil
	play(t, w, "serve 5s")
	var entered []string
	for _, line := range w.trace {
		if who, _, ok := strings.Cut(line, " enters"); ok {
			entered = append(entered, who)
		}
	}
	if got := strings.Join(entered, " "); got != "B B C" {
		t.Errorf("entered: %s, want B B C", got)
	}
}
