package soak

import (
	"strings"
	"testing"
)

// grown is a history whose samples change by the given amounts from one to the next.
func grown(rss int64, goroutines, fds, teeth int) history {
	h := history{name: "it"}
	now := sample{20 << 20, 15, 9}
	for i := range 60 {
		s := now
		s.rss += int64(i%5*teeth) << 20 // a garbage collector's saw
		switch {
		case i < 10:
			h.warm = append(h.warm, s)
			continue
		case i < 50:
			h.hot = append(h.hot, s)
		default:
			h.calm = append(h.calm, s)
		}
		now.rss += rss
		now.goroutines += goroutines
		now.fds += fds
	}
	return h
}

func TestJudgeTellsLeaksFromNoise(t *testing.T) {
	for name, test := range map[string]struct {
		h    history
		want string // "": steady
	}{
		"steady":                  {grown(0, 0, 0, 0), ""},
		"a saw":                   {grown(0, 0, 0, 6), ""},
		"grows by little":         {grown(200<<10, 0, 0, 6), ""},
		"memory":                  {grown(600<<10, 0, 0, 1), "memory grows steadily"},
		"goroutines":              {grown(0, 1, 0, 0), "goroutines more"},
		"file descriptors":        {grown(0, 0, 1, 0), "file descriptors more"},
		"gone before the end":     {history{name: "it", warm: make([]sample, 3)}, "not seen"},
		"a heap that is found":    {step(30 << 20), ""},
		"busy, and idle at last":  {busy(), ""},
		"busy, and never is idle": {stuck(), "goroutines more"},
	} {
		r := test.h.judge()
		if got := strings.Join(r.faults, ", "); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// step is a history that jumps once, when faults begin.
func step(by int64) history {
	h := grown(0, 0, 0, 0)
	for i := range h.hot[5:] {
		h.hot[5+i].rss += by
	}
	for i := range h.calm {
		h.calm[i].rss += by
	}
	return h
}

func busy() history {
	h := stuck()
	h.calm[len(h.calm)-1].goroutines = 15
	return h
}

func stuck() history {
	h := grown(0, 0, 0, 0)
	for i := range h.hot {
		h.hot[i].goroutines += 50
	}
	for i := range h.calm {
		h.calm[i].goroutines += 50
	}
	return h
}
