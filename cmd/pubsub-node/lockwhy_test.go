package main

import (
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
