package throttle

import (
	"fmt"
	"testing"
	"time"
)

func TestOnceAMinute(t *testing.T) {
	var l Log[string]
	at := time.Unix(1, 0)
	for _, step := range []struct {
		after time.Duration
		what  string
		want  bool
	}{
		{0, "a", true},
		{0, "a", false},
		{0, "b", true},
		{every - 1, "a", false},
		{1, "a", true},
		{0, "b", true},
		{every / 2, "a", false},
	} {
		at = at.Add(step.after)
		if got := l.May(step.what, at); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
}

// Ever new names cost no more memory, nor lines, than many names.
func TestManyNames(t *testing.T) {
	var l Log[string]
	at, lines := time.Unix(1, 0), 0
	for i := range 10 * most {
		if l.May(fmt.Sprint(i), at) {
			lines++
		}
	}
	if lines != most || len(l.last) != most {
		t.Errorf("%d lines, %d remembered, want %d", lines, len(l.last), most)
	}
	if at = at.Add(every); !l.May("one more", at) || len(l.last) != 1 {
		t.Errorf("a minute later %d are remembered", len(l.last))
	}
}
