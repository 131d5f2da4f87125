package gateway

import (
	"slices"
	"testing"
)

// Clients take turns, each in its own order, and who is empty leaves nothing.
func TestFairTakesTurns(t *testing.T) {
	var q fair[string]
	if _, ok := q.take(); ok {
		t.Error("there is something in an empty queue")
	}
	for _, x := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
		q.put(x[:1], x)
	}
	if q.has("a") != 3 || q.has("d") != 0 || q.size != 6 {
		t.Errorf("a has %d, d has %d, of %d", q.has("a"), q.has("d"), q.size)
	}
	var got []string
	take := func(n int) {
		for range n {
			next, _ := q.next()
			x, ok := q.take()
			if !ok || x != next {
				t.Fatalf("took %q, %v, and %q was next", x, ok, next)
			}
			got = append(got, x)
		}
	}
	take(2)
	q.put("b", "b2") // b is behind the others again
	take(5)
	if want := []string{"a1", "b1", "c1", "a2", "b2", "c2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
	if q.size != 0 || len(q.of) != 0 || len(q.order) != 0 {
		t.Errorf("%+v is left", q)
	}
}
