package main

import (
	"os"
	"strings"
	"testing"

	"padme/qosmutex"
)

// Two resources of a lock may have entries with the same fence, and a grant several fences.
func TestAnEntryIsFoundByItsFence(t *testing.T) {
	states := []qosmutex.State{
		{Resource: "a", Decision: &qosmutex.Decision{Fence: "10", Fences: 1}},
		{Resource: "b", Decision: &qosmutex.Decision{Fence: "8", Fences: 3}},
		{Resource: "c"},
	}
	for fence, want := range map[string]string{"10": "a b", "9": "b", "8": "b"} {
		var got []string
		found, err := ofEntry(states, fence)
		for _, st := range found {
			got = append(got, st.Resource)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("fence %s: %v %v, want %s", fence, got, err, want)
		}
	}
	if _, err := ofEntry(states, "11"); err == nil || !strings.Contains(err.Error(), "10, 8") {
		t.Errorf("fence 11: %v", err)
	}
	if _, err := ofEntry(states[2:], "10"); err == nil || !strings.Contains(err.Error(), "has given no grant") {
		t.Errorf("no decision: %v", err)
	}
}

// The pages explain with the words of "lock why".
func TestPagesExplainInTheSameWords(t *testing.T) {
	text, err := os.ReadFile("../internal/web/base/explain.js")
	if err != nil {
		t.Fatal(err)
	}
	said := func(kind, key, words string) {
		if words == "" || !strings.Contains(string(text), key+`: "`+words+`"`) {
			t.Errorf("explain.js does not say %q of %s %q", words, kind, key)
		}
	}
	for _, how := range []string{"root", "turn", "direct", "passing", "retained", "resumed"} {
		said("how", how, howText(how))
	}
	for _, by := range []string{"priority", "clock", "patience", "arrival", "level", "deadline"} {
		said("by", by, reason(&qosmutex.Waiter{By: by}))
	}
	for _, w := range []qosmutex.Waiter{{Any: true}, {Passed: true}, {Exhausted: true}} {
		if words := reason(&w); !strings.Contains(string(text), `"`+words+`"`) {
			t.Errorf("explain.js does not say %q", words)
		}
	}
}
