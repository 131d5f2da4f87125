//go:build unix

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/chaos"
	"padme/tests/extent"
)

// Robots, roots, voters and the broker are killed, and in the end nobody has overlapped
// and all who live are served.
func TestChaos(t *testing.T) {
	extent.Long(t, "half a minute of faults")
	extent.NotShort(t, "real time")
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
	killed, roots := 0, 0
	for _, a := range s.Chaos.Acts {
		if strings.HasPrefix(a.What, "robot-") && strings.Contains(a.What, " killed") {
			killed++
		}
		if a.Kind == chaos.KillRoot && strings.HasSuffix(a.What, " killed, the root") {
			roots++
		}
	}
	if len(s.Chaos.Robots) != 5 || lives != 5+killed {
		t.Errorf("%d robots have had %d lives, although %d were killed", len(s.Chaos.Robots), lives, killed)
	}
	if roots != s.Chaos.Faults[chaos.KillRoot] {
		t.Errorf("%d roots were killed, but %+v", roots, s.Chaos.Acts)
	}
	if !strings.Contains(stderr, "  faults ") {
		t.Errorf("progress does not tell of faults: %q", stderr)
	}
}

// The check can fail: robots that claim to hold the same frequency at the same time
// are found out, also when the run is interrupted.
func TestChaosFindsOverlaps(t *testing.T) {
	extent.NotShort(t, "real time")
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
