package classic

import (
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// hops gives the synchronization delay in t_m between an entry of one and the next,
// of another, when everybody contends and stays long enough for all else to settle.
var hops = map[string]func(n, from, to int) int{
	"central":         atServer,
	"central-fifo":    atServer,
	"lamport":         oneHop,
	"ricart-agrawala": oneHop,
	"suzuki-kasami":   oneHop,
	"naimi-trehel":    oneHop,
	"token-ring":      oneHop,
	// The Release to a common voter and its Reply; of these, what a participant does
	// for itself takes no time.
	"maekawa": func(n, from, to int) int {
		most := 0
		for _, v := range votingSet(n, from) {
			if slices.Contains(votingSet(n, to), v) {
				most = max(most, min(abs(v-from), 1)+min(abs(v-to), 1))
			}
		}
		return most
	},
}

func oneHop(int, int, int) int        { return 1 }
func atServer(_, from, to int) int    { return min(from, 1) + min(to, 1) }
func abs(i int) int                   { return max(i, -i) }
func delayIn(d protocol.Duration) int { return int(d / tm) }

func TestSynchronizationDelay(t *testing.T) {
	for _, a := range All() {
		expected := hops[a.Name]
		if expected == nil {
			continue // the naive one deadlocks, voting leaves it to chance
		}
		for n := 2; n <= 12; n++ {
			w := saturated(a, n, 20, 40*tm)
			seen := map[int]bool{}
			for k := 1; k < len(w.entries); k++ {
				from, to := w.entries[k-1], w.entries[k]
				want := expected(n, from.who, to.who)
				if to.delay != protocol.Duration(want)*tm {
					t.Fatalf("%s: N=%d: %d to %d takes %d t_m, want %d (%v)", a.Name, n, from.who, to.who, delayIn(to.delay), want, w.failure)
				}
				seen[want] = true
			}
			if w.failure != nil || (a.Name == "maekawa" && n > 3 || a.Name == "central" && n > 2) && !seen[2] {
				t.Errorf("%s: N=%d: delays %v, never 2 (%v)", a.Name, n, seen, w.failure)
			}
		}
	}
}
