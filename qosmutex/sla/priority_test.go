package sla

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// family is the priority family by the rules behind it; c is small where there is
// one, so that requests rise in short tests.
var family = []struct {
	name  string
	rules rules
}{
	{"raymond", raymond},
	{"kanrar-chaki", kanrarChaki},
	{"kanrar-chaki-piggyback", kanrarChakiPiggyback},
	{"chang", chang},
	{"level", level(0)},
	{"level-distance", levelDistance(0)},
}

// checkWhole holds what only all participants together can show: the token is at
// one participant or on one channel, and the two ends of every other link agree in
// which direction it is.
func (f *figure) checkWhole(parents []int) {
	type link struct{ a, b int }
	tokens := 0
	crossing := map[link]bool{}
	for _, e := range f.events {
		if e.msg != nil && e.msg.Kind == protocol.KindToken {
			tokens++
			crossing[link{e.from, e.to}], crossing[link{e.to, e.from}] = true, true
		}
	}
	holder := func(i int) int {
		if f.cores[i] == nil { // not named a resource yet
			return parents[i]
		}
		return f.cores[i].holder
	}
	for i := range parents {
		if h := holder(i); h == i || h < 0 {
			tokens++
		}
	}
	if tokens != 1 {
		f.t.Fatalf("there are %d tokens at %d", tokens, f.now)
	}
	for child, parent := range parents {
		if parent < 0 {
			continue
		}
		down, up := holder(parent) == child, holder(child) == parent
		if down && up != crossing[link{child, parent}] || !down && !up {
			f.t.Fatalf("%s and %s do not agree on where the token is", f.name(child), f.name(parent))
		}
	}
}

// TestProperties: whoever asks, leaves, withdraws and changes its mind when, on any
// tree and however long each message takes, there is one token, one inside at most,
// fences rise, invariants hold, and everybody is served in the end.
func TestProperties(t *testing.T) {
	for _, a := range family {
		t.Run(a.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { randomRun(t, a.rules) })
		})
	}
}

func randomRun(t *rapid.T, r rules) {
	parents := drawTree(t, 9)
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	f := newFigure(t, r, len(parents), parents)
	f.latency = func(_, _ int) protocol.Duration { return protocol.Duration(random.IntN(20)) }
	f.onEnter = func(e pumpEntry) {
		f.at(f.now+protocol.Duration(random.IntN(30)), func() { f.leave(e.node) })
	}
	span := rapid.IntRange(1, 400).Draw(t, "span")
	for range rapid.IntRange(0, 40).Draw(t, "acts") {
		i := random.IntN(len(parents))
		priority := int64(random.IntN(Levels+4)) - 2
		var do func()
		switch random.IntN(8) {
		case 0:
			do = func() {
				if n := f.nodes[i]; len(n.waiting) > 0 {
					f.withdraw(i, n.waiting[random.IntN(len(n.waiting))])
				}
			}
		case 1:
			do = func() { f.must(i, &protocol.Input{Kind: protocol.Prioritize, Priority: priority}) }
		case 2:
			do = func() { f.acquire(i, protocol.Input{}) }
		default:
			do = func() { f.ask(i, priority) }
		}
		f.at(protocol.Time(random.IntN(span)), do)
	}
	for len(f.events) > 0 {
		f.take(f.next())
		f.checkWhole(parents)
	}
	for i, n := range f.nodes {
		if len(n.waiting) > 0 {
			t.Fatalf("%s waits for ever", f.name(i))
		}
	}
	if s := f.state(); s != "" {
		t.Fatalf("somebody is left: %s", s)
	}
}

// TestMostImportantFirst: among requests that are all known before the token moves,
// and none of which has aged, the queue at the token serves in order of value.
func TestMostImportantFirst(t *testing.T) {
	for _, a := range Priority()[1:] {
		t.Run(a.Name, func(t *testing.T) {
			p := newPump(t, a, Levels+1, star(Levels+1), nil)
			p.ask(0, 0)
			for i := 1; i <= Levels; i++ { // each after all more important ones: nothing ages
				p.ask(i, int64(i-1))
				p.settle()
			}
			p.leave(0)
			if got, want := fmt.Sprint(p.drain()), "[1 2 3 4 5 6 7 8]"; got != want {
				t.Errorf("served in the order %v, want %v", got, want)
			}
		})
	}
}

// star returns the parents of a star around participant 0.
func star(n int) []int { return randomTree(n, func(int) int { return 0 }) }

// TestCrossing: a request that meets the token on its link is dropped. The one that
// travels with the token, or behind it, says all that the other did.
func TestCrossing(t *testing.T) {
	for _, a := range family {
		t.Run(a.name, func(t *testing.T) {
			f := newFigure(t, a.rules, 4, []int{-1, 0, 1, 1})
			f.ask(0, 0)
			f.ask(2, 5)
			f.settle()
			f.leave(0)  // the token is on its way to 2
			f.ask(3, 1) // and a more important request of 4 comes up to meet it
			f.deliver(3, 1)
			if a.rules.blind == (f.sent[protocol.KindRequest] == 4) {
				t.Fatalf("%d requests were sent: 2 asks again unless priorities mean nothing", f.sent[protocol.KindRequest])
			}
			f.settle()
			if q := f.cores[0].queue; len(q) != 0 {
				t.Errorf("1 still has %s", f.cores[0])
			}
			first := f.inside
			if order := f.drain(); len(order) != 1 || order[0]+first != 2+3 {
				t.Errorf("%d is inside, then come %v", first, order)
			}
		})
	}
}

// TestTry: a request that will not wait enters where the token rests, and nowhere
// else.
func TestTry(t *testing.T) {
	for _, a := range Priority() {
		t.Run(a.Name, func(t *testing.T) {
			p := newPump(t, a, 2, nil, nil)
			p.acquire(1, protocol.Input{Try: true})
			if len(p.denials) != 1 || p.denials[0].reason != protocol.ReasonBusy {
				t.Fatalf("denials %v", p.denials)
			}
			p.acquire(0, protocol.Input{Try: true})
			if p.inside != 0 || p.counted() != 0 {
				t.Errorf("%d inside after %d messages", p.inside, p.counted())
			}
			p.acquire(0, protocol.Input{Try: true})
			if len(p.denials) != 2 {
				t.Error("a second request at the same participant was let in or waits")
			}
		})
	}
}

// TestFences: they start above the floor of whoever enters, and rise from there
// wherever the token goes.
func TestFences(t *testing.T) {
	floors := []uint64{10, 500, 20}
	for _, a := range Priority() {
		t.Run(a.Name, func(t *testing.T) {
			p := newPump(t, a, 3, nil, func(i int, cfg *protocol.Config) { cfg.FenceFloor = floors[i] })
			var fences []uint64
			p.onEnter = func(e pumpEntry) { fences = append(fences, e.fence) }
			for _, i := range []int{0, 2, 1, 0} {
				p.ask(i, 0)
				p.settle()
				p.leave(i)
				p.settle()
			}
			if got, want := fmt.Sprint(fences), "[11 21 501 502]"; got != want {
				t.Errorf("fences %v, want %v", got, want)
			}
		})
	}
}

// TestScale: priorities outside of the levels count as the nearest one.
func TestScale(t *testing.T) {
	for priority, want := range map[int64]int64{-1 << 63: 7, -1: 7, 0: 7, 1: 6, 7: 0, 8: 0, 1<<63 - 1: 0} {
		if got := valueOf(priority); got != want {
			t.Errorf("priority %d is value %d, want %d", priority, got, want)
		}
	}
}

// TestConfig: a tree that is none is refused when the machine is made.
func TestConfig(t *testing.T) {
	for _, parents := range [][]int{{-1, -1}, {1, 0}, {-1}, {-1, 2}} {
		cfg := pumpConfig(0, 2, parents)
		if _, err := KanrarChaki.New(cfg); err == nil {
			t.Errorf("parents %v: no error", parents)
		}
	}
	cfg := pumpConfig(0, 2, nil)
	cfg.Self.ID = "nobody"
	if _, err := Raymond.New(cfg); err == nil {
		t.Error("a stranger became a participant")
	}
}

// TestPriority pins the names that --algorithm takes, and their order.
func TestPriority(t *testing.T) {
	want := []string{"raymond", "kanrar-chaki", "kanrar-chaki-piggyback", "chang", "level", "level-distance"}
	var names []string
	for _, a := range Priority() {
		names = append(names, a.Name)
		for _, text := range []string{a.Source, a.Messages, a.Delay, a.Assumes, a.Crash} {
			if text == "" || !a.Static {
				t.Errorf("%s: %+v lacks something", a.Name, a)
			}
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if n := Level(2).Name + " " + LevelDistance(7).Name; n != "level-c2 level-distance-c7" {
		t.Errorf("with another c: %s", n)
	}
}
