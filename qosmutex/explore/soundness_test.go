package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
	"padme/tests/extent"
)

// TestSameNameSameFuture checks the canonical form of states: whenever two runs end
// in states of one fingerprint, the same actions must be possible in both, and each must
// lead to states of one hash again. So nothing that matters was left out.
func TestSameNameSameFuture(t *testing.T) {
	extent.Long(t, "half a million states twice")
	for _, c := range []Config{
		{Parents: []int{-1, 0, 1}, Models: models("fruu"), Requests: 2},
		{Parents: []int{-1, 0, 0}, Models: models("lfuu"), Requests: 2},
		{Parents: []int{-1, 0, 1}, Models: models("frfu"), Requests: 1, Delay: 1, Budget: Budget{Crash: 1, Lose: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 1}, Models: models("lruf"), Requests: 1, Budget: Budget{Cut: 1, Withdraw: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 0}, Models: models("ffuu"), Requests: 1, Budget: Budget{Pause: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 1}, Models: models("fruu"), Requests: 1, Adaptive: true, Budget: Budget{Outrank: 1, Depart: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 1}, Models: models("fruu"), Requests: 1, Adaptive: true, Budget: Budget{Pause: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0}, Models: models("fruu"), Requests: 1, Adaptive: true, Budget: Budget{Cut: 1, Depart: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0}, Models: models("fruu"), Requests: 1, Adaptive: true, Register: true, Budget: Budget{Crash: 1, Unheard: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 0}, Models: models("fruu"), Requests: 1, Adaptive: true, Register: true, Budget: Budget{Late: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0}, Models: models("fruu"), Requests: 1, Adaptive: true, Register: true, Budget: Budget{Cut: 1, Forget: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0}, Models: models("lffr"), Requests: 3, Budget: Budget{Crash: 1, Lose: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 0}, Models: models("frur"), Requests: 2, Budget: Budget{Pause: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 1}, Models: models("lffr"), Requests: 2, Adaptive: true, Budget: Budget{Cut: 1, Depart: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 0}, Models: models("lffd"), Requests: 2, Budget: Budget{Crash: 1, Lose: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 1}, Models: models("frud"), Requests: 1, Budget: Budget{Withdraw: 1, Duplicate: 1, Tick: Unlimited}},
		{Parents: []int{-1, 0, 0}, Models: models("lffd"), Requests: 1, Adaptive: true, Budget: Budget{Outrank: 1, Depart: 1, Tick: Unlimited}},
	} {
		t.Run(c.String(), func(t *testing.T) { checkFutures(t, &c) })
	}
}

// TestCovers: what may go wrong is included in what is as much of each kind.
func TestCovers(t *testing.T) {
	v := newVisited(&Config{Budget: Budget{Crash: 1, Lose: 2, Withdraw: 1, Tick: Unlimited}})
	var all []*world
	for i := range 12 {
		w := &world{broken: i%2 == 1}
		w.budget[Crash], w.budget[Lose] = int8(i/2%2), int8(i/4)
		all = append(all, w)
	}
	for _, a := range all {
		for _, b := range all {
			want := a.budget[Crash] >= b.budget[Crash] && a.budget[Lose] >= b.budget[Lose] && (!a.broken || b.broken)
			if got := v.covers[v.combination(b)]&(1<<v.combination(a)) != 0; got != want {
				t.Errorf("%v, broken %v, covers %v, broken %v: %v", a.budget, a.broken, b.budget, b.broken, got)
			}
		}
	}
}

func models(initials string) protocol.Models {
	m, err := protocol.ParseModels(initials)
	if err != nil {
		panic(err)
	}
	return m
}

// checkFutures follows a breadth-first search for a few thousand states.
func checkFutures(t *testing.T, c *Config) {
	w, err := newWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	h, v := newHasher(maphash.MakeSeed()), newVisited(c)
	met := map[uint64][]*world{h.key(w): {w}}
	queue := []*world{w}
	twins, covered := 0, 0
	for len(queue) > 0 && twins+covered < 6000 {
		w, queue = queue[0], queue[1:]
		for _, a := range w.actions() {
			next := w.after(a, w.out)
			if next.failure != nil {
				t.Fatalf("%v: %v", a, next.failure)
			}
			key, known := h.key(next), false
			for _, twin := range met[key] {
				mine, its := v.combination(next), v.combination(twin)
				if v.covers[mine]&(1<<its) == 0 {
					continue
				}
				if known = true; its == mine {
					twins++
				} else {
					covered++
				}
				if problem := differ(h, v, twin, next); problem != "" {
					t.Fatalf("two states of one fingerprint %s", problem)
				}
			}
			if !known {
				met[key] = append(met[key], next)
				queue = append(queue, next)
			}
		}
	}
	if twins == 0 || covered == 0 && len(c.Budget) > 1 {
		t.Error("no two runs met in one state")
	}
	t.Logf("%d fingerprints, %d meetings, %d with less left to go wrong", len(met), twins, covered)
}

// differ says how b does what a, which has at least as much left to go wrong, does not.
func differ(h *hasher, v *visited, a, b *world) string {
	x, y := a.actions(), b.actions()
	if v.combination(a) == v.combination(b) && !slices.Equal(x, y) {
		return fmt.Sprintf("allow %v and %v", x, y)
	}
	for _, act := range y {
		if !slices.Contains(x, act) {
			return fmt.Sprintf("do not both allow %v", act)
		}
		after, other := a.after(act, a.out), b.after(act, b.out)
		if (after.failure == nil) != (other.failure == nil) || h.key(after) != h.key(other) || !v.includes(v.combination(after), v.combination(other)) {
			return fmt.Sprintf("differ after %v", act)
		}
	}
	return ""
}
