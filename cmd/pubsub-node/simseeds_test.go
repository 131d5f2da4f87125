package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"padme/tests/extent"
)

// seededReport is what a script would read of one contender.
type seededReport struct {
	Name    string
	Seeds   int
	Best    bool
	Columns map[string]struct{ Mean, Half float64 }
}

func seeded(t *testing.T, args ...string) (all []seededReport) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(mustSimulate(t, append(args, "--json")...))); d.More(); {
		var r seededReport
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Seeds are those of runs by themselves.
func TestSeedsAreRuns(t *testing.T) {
	args := []string{"--think", "exponential:5s", "--duration", "100s"}
	total := 0
	for seed := 4; seed < 8; seed++ {
		total += report(t, append(args, "--seed", fmt.Sprint(seed))...).Entries.Total
	}
	got := seeded(t, append(args, "--seed", "4", "--seeds", "4")...)
	if len(got) != 1 || got[0].Seeds != 4 || got[0].Columns["entries"].Mean != float64(total)/4 || got[0].Columns["entries"].Half <= 0 {
		t.Errorf("%+v, want a mean of %d / 4", got, total)
	}
}

// What is better by argument is told apart, and what is equal is called a tie.
func TestSeedsRank(t *testing.T) {
	few := []string{"--think", "exponential:5s", "--duration", "100s", "--seeds", "8"}
	for _, tc := range []struct {
		name, compare, sort string
		best                []string
	}{
		{"fair is fairer than level", "padme:LFFF,padme:FFFF", "fairness", []string{"padme:FFFF"}},
		{"use passes the token on sooner", "padme:FFFF,padme:FFUU", "entries", []string{"padme:FFUU"}},
		{"replace sends fewer messages", "padme:FFUU,padme:FRUU", "messages", []string{"padme:FRUU"}},
		{"replace lets the same enter", "padme:FRUU,padme:FFUU", "entries", []string{"padme:FRUU", "padme:FFUU"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var best []string
			for _, r := range seeded(t, append(few, "--compare", tc.compare, "--sort", tc.sort)...) {
				if r.Best {
					best = append(best, r.Name)
				}
			}
			if strings.Join(best, " ") != strings.Join(tc.best, " ") {
				t.Errorf("best are %q, want %q", best, tc.best)
			}
		})
	}
}

// padmeOf is PADME with the models of a scenario.
func padmeOf(t *testing.T, s *simSpec) contender {
	t.Helper()
	padme, err := algorithmNamed(padmeName)
	if err != nil {
		t.Fatal(err)
	}
	models, err := modelsNamed(s.models)
	if err != nil {
		t.Fatal(err)
	}
	return contender{padme, models}
}

// Chance decides no rank: whatever a seed favors, of two contenders that are one at most one
// table in twenty tells them apart. Here they are the same algorithm with other seeds.
func TestTiesAreHonest(t *testing.T) {
	s := newSimSpec()
	for name, value := range map[string]string{"think": "exponential:5s", "duration": "60s"} {
		if err := s.options.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	padme := padmeOf(t, s)
	const seeds = 6
	tables := extent.Of(100, 400)
	outcomes, err := s.simulateAll(t.Context(), []contender{padme}, tables*2*seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i := range tables {
		rows := make([]sampled, 2)
		for j := range rows {
			for k := range seeds {
				rows[j].reports = append(rows[j].reports, s.report(&outcomes[(2*i+j)*seeds+k]))
			}
		}
		if rank(rows, "wait"); !rows[0].tie {
			wrong++
		}
	}
	// One in twenty is what a confidence of 95 % promises, and three standard deviations.
	if n := float64(tables); float64(wrong) > n/20+3*math.Sqrt(n*0.05*0.95) {
		t.Errorf("%d of %d ties were called a difference", wrong, tables)
	}
}

// The table does not depend on which run is over first.
func TestSeedsInAnyOrder(t *testing.T) {
	args := []string{"--compare", "all-models", "--think", "exponential:5s", "--duration", "60s", "--seeds", "5"}
	first := mustSimulate(t, args...)
	if !strings.Contains(first, "means of 5 seeds") {
		t.Error(first)
	}
	for range 3 {
		if again := mustSimulate(t, args...); again != first {
			t.Errorf("%s\nafter\n%s", again, first)
		}
	}
}

// Whenever a table is interrupted, but for what runs at that moment all have the same seeds.
func TestSeedsInTurn(t *testing.T) {
	const contenders, seeds = 3, 4
	done := [contenders]int{}
	for run := range contenders * seeds {
		c, k := inTurn(run, contenders)
		if k != done[c] {
			t.Errorf("run %d is seed %d of contender %d, after %d", run, k, c, done[c])
		}
		done[c]++
		if least, most := slices.Min(done[:]), slices.Max(done[:]); most-least > 1 {
			t.Errorf("after run %d contenders have %v seeds", run, done)
		}
	}
}

// What an interrupted table shows are the seeds with which all were run.
func TestInterruptedSeeds(t *testing.T) {
	f := &simFlags{spec: newSimSpec(), seeds: 4, sort: "entries"}
	padme := padmeOf(t, f.spec)
	outcomes, err := f.spec.simulateAll(t.Context(), []contender{padme, padme}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	outcomes[6].ended = false // the third seed of the second
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := f.finishSeeds(ctx, &out, outcomes); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "3 of 4 seeds were over") || !strings.Contains(out.String(), "means of 3 seeds") {
		t.Errorf("%v\n%s", err, out.String())
	}
	outcomes[1].ended, outcomes[0].ended = false, false
	if err := f.finishSeeds(ctx, &out, outcomes); err == nil || !strings.Contains(err.Error(), "1 of 4 seeds were over, and an interval takes two") {
		t.Error(err)
	}
}
