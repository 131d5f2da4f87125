package sla

import (
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// drawTree draws a tree of most participants at most.
func drawTree(t *rapid.T, most int) (parents []int) {
	n := rapid.IntRange(1, most).Draw(t, "participants")
	return randomTree(n, func(k int) int { return rapid.IntRange(0, k-1).Draw(t, "parent") })
}

// distance is the number of links between two participants, worked out without the
// code under test: climb from both to where the ways meet.
func distance(parents []int, a, b int) int {
	up := map[int]int{}
	for d := 0; a >= 0; a, d = parents[a], d+1 {
		up[a] = d
	}
	for d := 0; ; b, d = parents[b], d+1 {
		if n, ok := up[b]; ok {
			return n + d
		}
	}
}

// TestRaymondIsolated: a request that nobody else competes with costs exactly twice
// the distance to the token, half of it requests.
func TestRaymondIsolated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := drawTree(t, 30)
		p := newPump(t, Raymond, len(parents), parents, nil)
		token := 0
		for range 5 {
			next := rapid.IntRange(0, len(parents)-1).Draw(t, "next")
			requests, tokens := p.sent[protocol.KindRequest], p.sent[protocol.KindToken]
			p.ask(next, 0)
			p.settle()
			p.leave(next)
			p.settle()
			want := distance(parents, token, next)
			if r, k := p.sent[protocol.KindRequest]-requests, p.sent[protocol.KindToken]-tokens; r != want || k != want {
				t.Fatalf("%d requests and %d tokens for a distance of %d", r, k, want)
			}
			token = next
		}
	})
}

// TestIsolated: so it is with all the family, whatever the priority.
func TestIsolated(t *testing.T) {
	for _, a := range Priority() {
		t.Run(a.Name, func(t *testing.T) {
			parents := []int{-1, 0, 1, 1, 3, 0}
			p := newPump(t, a, len(parents), parents, nil)
			p.ask(4, 5)
			p.settle()
			p.leave(4)
			p.ask(5, 0)
			p.settle()
			if want := 2 * (3 + 4); p.counted() != want {
				t.Errorf("%d messages, want %d", p.counted(), want)
			}
		})
	}
}

// TestRaymondServesInOrder: at one queue requests are served as they come.
func TestRaymondServesInOrder(t *testing.T) {
	p := newPump(t, Raymond, 5, []int{-1, 0, 0, 0, 0}, nil)
	p.ask(0, 7)
	for i := 4; i > 0; i-- {
		p.ask(i, int64(i))
		p.settle()
	}
	p.leave(0)
	order := p.drain()
	for i, n := range order {
		if n != 4-i {
			t.Fatalf("served in the order %v", order)
		}
	}
}
