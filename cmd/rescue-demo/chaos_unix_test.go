//go:build unix

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/summary"
)

// Robots, the root and the broker are killed, and in the end nobody has overlapped
// and all who live are served.
func TestChaos(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := play(t, t.Context(), "--processes", "--chaos", "--duration", "30s", "--robots", "5", "--frequencies", "3", "--json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	s := parse(t, stdout)
	if s.Chaos == nil || s.Overlaps != 0 || len(s.Failures) != 0 || s.Entries < 10 || s.Interrupted {
		t.Fatalf("%s", stdout)
	}
	lives := 0
	for _, r := range s.Chaos.Robots {
		lives += r.Lives
		if !r.Alive || r.AirtimeInCalm > r.Airtime || r.Contact >= r.Needed && r.AirtimeInCalm <= 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, k := range chaos.Kinds() {
		if s.Chaos.Faults[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
	if killed := s.Chaos.Faults[chaos.KillRobot]; len(s.Chaos.Robots) != 5 || lives != 5+killed {
		t.Errorf("%d robots have had %d lives, although %d were killed", len(s.Chaos.Robots), lives, killed)
	}
	if i := slices.IndexFunc(s.Chaos.Acts, func(a summary.Act) bool { return a.Kind == chaos.KillRoot }); s.Chaos.Acts[i].What != "base killed, the root" {
		t.Errorf("%+v", s.Chaos.Acts[i])
	}
	if !strings.Contains(stderr, "  faults ") {
		t.Errorf("progress does not tell of faults: %q", stderr)
	}
}

// The check can fail: robots that claim to hold the same frequency at the same time
// are found out, also when the run is interrupted.
func TestChaosFindsOverlaps(t *testing.T) {
	t.Setenv(asLiar, "1") // not in parallel
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(4*time.Second, cancel)
	defer timer.Stop()
	code, stdout, stderr := play(t, ctx, "--processes", "--chaos", "--duration", "60s", "--robots", "2", "--json")
	if code != exitFailed || !strings.Contains(stderr, "the lock was broken") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if s := parse(t, stdout); s.OverlapKinds.Intervals == 0 {
		t.Errorf("%+v", s.OverlapKinds)
	}
}
