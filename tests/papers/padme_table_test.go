package papers

import (
	"fmt"
	"math"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// row is what one class of combinations must show at one message transmit time.
type row struct {
	high, medium, low int
	perEntry          float64
}

// expected returns the row of a combination at t_m = 1 s or 0.5 s. Which request
// model is used must not matter for the entries.
func expected(m protocol.Models, half bool) row {
	uses := 0
	for _, p := range []protocol.PassModel{m.Reply, m.Release} {
		if p == protocol.Use {
			uses++
		}
	}
	rows := map[bool][]row{
		false: {{90, 90, 0, 1.5}, {14, 28, 52, 30. / 7}, {53, 52, 50, 7. / 3}, {46, 90, 44, 2}},
		true:  {{120, 120, 0, 1.5}, {22, 43, 84, 30. / 7}, {73, 73, 71, 7. / 3}, {61, 120, 59, 2}},
	}[half]
	if m.Priority == protocol.Level {
		return rows[0]
	}
	return rows[1+uses]
}

// TestPADMETable holds all sixteen combinations against the entries per level of
// PADME §4 and the messages per entry that follow from its rules.
func TestPADMETable(t *testing.T) {
	for _, latency := range []protocol.Duration{protocol.Second, protocol.Second / 2} {
		for _, m := range protocol.AllModels() {
			name := fmt.Sprintf("tm=%dms/%v", latency/protocol.Millisecond, m)
			t.Run(name, func(t *testing.T) {
				s, err := sim.New(padme.Algorithm, sim.PaperScenario(m, latency))
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Run()
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("synchronisation delay %v", &r.SyncDelay)
				hold(t, m, latency, row{r.AtPriority(0), r.AtPriority(1), r.AtPriority(2), r.PerEntry()})
			})
		}
	}
}

// hold compares what came out with the table. For the messages per entry the table
// has no column of its own for Replace, which sends fewer.
func hold(t *testing.T, m protocol.Models, latency protocol.Duration, got row) {
	t.Helper()
	const (
		entries  = 2    // start and end of the run
		messages = 0.05 // of the messages per entry, likewise
	)
	t.Logf("%d/%d/%d = %d, %.3f messages per entry", got.high, got.medium, got.low, got.high+got.medium+got.low, got.perEntry)
	want := expected(m, latency < protocol.Second)
	for _, level := range []struct {
		name      string
		got, want int
	}{{"high", got.high, want.high}, {"medium", got.medium, want.medium}, {"low", got.low, want.low}} {
		if diff := level.got - level.want; diff < -entries || diff > entries {
			t.Errorf("%s: %d entries, want %d ± %d", level.name, level.got, level.want, entries)
		}
	}
	if m.Request == protocol.RequestForward && math.Abs(got.perEntry/want.perEntry-1) > messages {
		t.Errorf("%.3f messages per entry, want %.3f ± %v %%", got.perEntry, want.perEntry, 100*messages)
	}
}
