//go:build linux

package soak

import (
	"strings"
	"testing"
	"time"

	"padme/tests/extent"
	"padme/tests/process"
)

// What a run must find is there to be found: a member that leaks on purpose, with
// each hold, is told from one that does not, by the same samples and the same
// judgment.
func TestLeaksOfAProcessAreSeen(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	bin := process.Program(t, "padme/cmd/pubsub-node")
	at := newSite(t, bin, "leaking", true)
	s := &soak{t: t, sites: []*site{at}}
	want := map[string]string{"": "", "goroutines": "goroutines more", "files": "file descriptors more", "memory": "memory grows steadily"}
	var members []*watched
	for what := range want {
		m := newMember(t, what, at.proxy.URL(), what)
		members = append(members, m)
		at.living = append(at.living, m)
	}
	s.sample(3*time.Second, nil) // on a busy machine processes begin late, and grow as they do
	s.sample(time.Second, func(h *history) *[]sample { return &h.warm })
	s.sample(6*time.Second, func(h *history) *[]sample { return &h.hot })
	s.sample(time.Second, func(h *history) *[]sample { return &h.calm })
	var rows []row
	for _, m := range members {
		r := m.judge()
		rows = append(rows, r)
		if got := strings.Join(r.faults, ", "); want[m.name] == "" && got != "" || !strings.Contains(got, want[m.name]) {
			t.Errorf("a member that leaks %q: %q, want %q", m.name, got, want[m.name])
		}
	}
	for _, err := range s.errs {
		t.Error(err)
	}
	t.Logf("\n%s", table(rows))
}
