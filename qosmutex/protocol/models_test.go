package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestModelsHaveNames(t *testing.T) {
	seen := make(map[Models]bool)
	for _, m := range Combinations() {
		var initials strings.Builder
		for word := range strings.SplitSeq(m.String(), "-") {
			initials.WriteString(word[:1])
		}
		for _, text := range []string{m.String(), initials.String()} {
			if got, err := ParseModels(text); err != nil || got != m || !m.Valid() || got.String() != m.String() {
				t.Errorf("%q: %v, %v", text, got, err)
			}
		}
		seen[m] = true
	}
	for _, m := range AllModels() {
		if !seen[m] {
			t.Errorf("%v is missing", m)
		}
	}
	if !seen[Models{Deadline, RequestReplace, Use, Direct}] {
		t.Error("the last constant of a model has no name")
	}
}

// A value that has no name neither prints as another one nor passes for one.
func TestModelsWithoutNameAreInvalid(t *testing.T) {
	for want, m := range map[string]Models{
		"invalid(4)-forward-forward-forward":   {Priority: Deadline + 1},
		"level-invalid(2)-forward-forward":     {Request: RequestReplace + 1},
		"level-forward-invalid(2)-forward":     {Reply: Retain},
		"level-forward-forward-invalid(4)":     {Release: Direct + 1},
		"invalid(255)-forward-forward-forward": {Priority: 255},
	} {
		if got := m.String(); got != want || m.Valid() {
			t.Errorf("%q, valid: %v, want %q", got, m.Valid(), want)
		}
		if _, err := ParseModels(m.String()); !errors.Is(err, ErrModels) {
			t.Errorf("%q is read: %v", m.String(), err)
		}
	}
}
