package sla

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// flood lets one request of the least importance wait in a star whose two other
// participants ask for the highest without end, and returns how many entries they
// make before it is served; -1 if these are more than limit.
func flood(t *testing.T, r rules, limit int) int {
	f := newFigure(t, r, 4, star(4))
	const victim = 3
	f.ask(1, 0)
	f.settle()
	f.ask(victim, Levels-1)
	f.settle()
	first := len(f.entries)
	for other := 2; ; other = 3 - other {
		f.ask(other, 0)
		f.settle()
		f.leave(f.inside)
		f.settle()
		switch overtakings := len(f.entries) - first - 1; {
		case f.inside == victim:
			return overtakings
		case overtakings > limit:
			return -1
		}
	}
}

// TestStarvationBound counts how often the least important request is overtaken by
// the most important ones: exactly as often as it must see them come until it is as
// important as they are, when it has come first. Under Chang's rules it grows by the
// entries instead.
func TestStarvationBound(t *testing.T) {
	const rises = Levels - 1
	bound := func(c int) (n int) {
		for p := 1; p <= rises; p++ {
			n += 1 << (p + c)
		}
		return n
	}
	for _, x := range []struct {
		name  string
		rules rules
		want  int
	}{
		{"raymond", raymond, 0},
		{"kanrar-chaki", kanrarChaki, rises},
		{"kanrar-chaki-piggyback", kanrarChakiPiggyback, rises},
		{"chang", chang, 1 + rises},
		{"level-c0", level(0), bound(0)},
		{"level-c2", level(2), bound(2)},
		{"level-distance-c1", levelDistance(1), bound(1)},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := flood(t, x.rules, 2*x.want+10); got != x.want {
				t.Errorf("overtaken %d times, want %d", got, x.want)
			}
		})
	}
}

// TestNobodyStarves: on any tree, whoever else asks for the highest priority without
// end, the least important request is served. LevelDistance is not among them.
func TestNobodyStarves(t *testing.T) {
	for _, a := range family[:5] {
		t.Run(a.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				parents := drawTree(t, 7)
				n := len(parents)
				random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				f := newFigure(t, a.rules, n, parents)
				victim := random.IntN(n)
				for i := range n {
					if i == victim {
						f.ask(i, Levels-1)
					} else {
						f.ask(i, 0)
					}
				}
				f.settle()
				for range 300 * n {
					if f.inside == victim {
						return
					}
					again := f.inside
					f.leave(again)
					f.ask(again, 0)
					f.settle()
				}
				t.Fatalf("%s still waits after %d entries", f.name(victim), len(f.entries))
			})
		})
	}
}

// TestDistanceStarves: two neighbors that ask by turns keep out one of the same
// value farther away, unless nearness does not count.
func TestDistanceStarves(t *testing.T) {
	for _, x := range []struct {
		name   string
		rules  rules
		served bool
	}{{"level", level(0), true}, {"level-distance", levelDistance(0), false}} {
		t.Run(x.name, func(t *testing.T) {
			f := newFigure(t, x.rules, 4, []int{-1, 0, 0, 2})
			const far = 3
			f.ask(1, 0)
			f.settle()
			f.ask(far, 0)
			f.settle()
			for other := 0; len(f.entries) < 500 && f.inside != far; other = 1 - other {
				f.ask(other, 0)
				f.settle()
				f.leave(f.inside)
				f.settle()
			}
			if served := f.inside == far; served != x.served {
				t.Errorf("after %d entries: served %v, want %v", len(f.entries), served, x.served)
			}
			f.drain()
		})
	}
}
