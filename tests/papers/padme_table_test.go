package papers

import (
	"fmt"
	"math"
	"testing"

	"padme/qosmutex/protocol"
	"padme/tests/papers/bench"
)

// TestPADMETable holds all sixteen combinations against the entries per level of
// PADME §4 and the messages per entry that follow from its rules.
func TestPADMETable(t *testing.T) {
	for _, latency := range []protocol.Duration{protocol.Second, protocol.Second / 2} {
		for _, m := range protocol.AllModels() {
			name := fmt.Sprintf("tm=%dms/%v", latency/protocol.Millisecond, m)
			t.Run(name, func(t *testing.T) {
				got, err := bench.PADME(m, latency)
				if err != nil {
					t.Fatal(err)
				}
				hold(t, m, latency, got)
			})
		}
	}
}

// hold compares what came out with the table. For the messages per entry the table
// has no column of its own for Replace, which sends fewer.
func hold(t *testing.T, m protocol.Models, latency protocol.Duration, got bench.PADMERow) {
	t.Helper()
	const (
		entries  = 2    // start and end of the run
		messages = 0.05 // of the messages per entry, likewise
	)
	t.Logf("%d/%d/%d = %d, %.3f messages per entry", got.High, got.Medium, got.Low, got.Total(), got.PerEntry)
	want := bench.PADMEWorkedOut(m, latency)
	for _, level := range []struct {
		name      string
		got, want int
	}{{"high", got.High, want.High}, {"medium", got.Medium, want.Medium}, {"low", got.Low, want.Low}} {
		if diff := level.got - level.want; diff < -entries || diff > entries {
			t.Errorf("%s: %d entries, want %d ± %d", level.name, level.got, level.want, entries)
		}
	}
	if m.Request == protocol.RequestForward && math.Abs(got.PerEntry/want.PerEntry-1) > messages {
		t.Errorf("%.3f messages per entry, want %.3f ± %v %%", got.PerEntry, want.PerEntry, 100*messages)
	}
}

// TestPADMERequestPolicy shows that who asks when decides the result: with the next
// request ready at the moment of leaving, the root enters all the time under Level.
func TestPADMERequestPolicy(t *testing.T) {
	for _, m := range protocol.AllModels() {
		if m.Priority != protocol.Level {
			continue
		}
		got, err := bench.PADMEReady(m, protocol.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got.High < 359 || got.Medium > 1 || got.Low > 0 {
			t.Errorf("%v: %d/%d/%d, want 360/0/0", m, got.High, got.Medium, got.Low)
		}
	}
}
