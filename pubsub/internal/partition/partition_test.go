package partition

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/pubsub/internal/failure"
)

func TestPartitionsMeetAsNamesAndPatterns(t *testing.T) {
	for _, c := range []struct {
		a, b List
		want bool
	}{
		{nil, nil, true},
		{nil, List{"default"}, true},
		{nil, List{"*"}, true},
		{nil, List{"p1"}, false},
		{List{"p1"}, List{"p1"}, true},
		{List{"p1"}, List{"p2"}, false},
		{List{"p1", "p2"}, List{"p3", "p2"}, true},
		{List{"p1"}, List{"p*"}, true},
		{List{"x1"}, List{"p*"}, false},
		{List{"p1"}, List{"p?"}, true},
		{List{"p12"}, List{"p?"}, false},
		{List{"pb"}, List{"p[a-c]"}, true},
		{List{"pd"}, List{"p[!a-c]"}, true},
		{List{"pb"}, List{"p[!a-c]"}, false},
		{List{"site/hall/7"}, List{"site*7"}, true}, // a slash is no border
		{List{"p*"}, List{"p*"}, false},             // two patterns never meet
		{List{"*"}, List{"p*"}, false},
		{List{"p*", "q"}, List{"p*", "q"}, true},
		{List{"["}, List{"a"}, false}, // a stranger's
	} {
		if c.a.Meets(c.b) != c.want || c.b.Meets(c.a) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}

func TestABrokenPatternIsRefused(t *testing.T) {
	for _, p := range []string{"[x", "a[", `*\`} {
		err := List{p}.Validate()
		if !errors.Is(err, failure.ErrInvalid) || !strings.Contains(err.Error(), "close the bracket") || !strings.Contains(err.Error(), "a name cannot contain") {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{`a\`, "x]", "[x]"} {
		if err := (List{p}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

// Whenever two match, the writer publishes to a topic that the reader hears.
func TestWhoMeetsIsHeard(t *testing.T) {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab", "a/b", "a*", "*", "?", "[ab]", "[!a]", "default"}), 0, 4, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		w, r := List(list.Draw(t, "writer")), List(list.Draw(t, "reader"))
		if w.Validate() != nil || r.Validate() != nil {
			t.Fatal("refused")
		}
		var readers []List
		if w.Meets(r) {
			readers = append(readers, r)
		}
		heard := false
		for _, level := range w.Published(slices.Values(readers)) {
			for _, f := range r.Filters() {
				heard = heard || f == level || f == "+"
			}
		}
		if w.Meets(r) && !heard {
			t.Fatalf("%q publishes to %q, %q hears %q", w, w.Published(slices.Values(readers)), r, r.Filters())
		}
	})
}
