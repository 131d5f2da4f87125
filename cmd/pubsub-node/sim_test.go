package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// simulated runs `pubsub-node sim` in this process.
func simulated(args ...string) (string, error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"sim"}, args...))
	root.SetOut(&out)
	err := root.Execute()
	return out.String(), err
}

func mustSimulate(t *testing.T, args ...string) string {
	t.Helper()
	out, err := simulated(args...)
	if err != nil {
		t.Fatalf("sim %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// simulatedReport is what a script would read, by the names that are promised.
type simulatedReport struct {
	Scenario struct {
		Algorithm, Models string
		Nodes             int
		Priorities        []int64
		Seed              uint64
	}
	Complete bool
	Entries  struct {
		Total      int
		ByNode     []int
		ByPriority map[string]int
	}
	Messages struct {
		Total    int
		ByKind   map[string]int
		PerEntry float64
	}
	SyncDelay  struct{ Mean, P50, P99 float64 }
	Inversions struct{ Known, Pending, Victims, Overtakers int }
	Wait       struct {
		Mean, P50, P99 float64
		ByPriority     map[string]struct{ Mean float64 }
	}
	Starvation struct{ Waiting, Nodes int }
	Measured   float64
	Events     int
}

func report(t *testing.T, args ...string) simulatedReport {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(mustSimulate(t, append(args, "--json")...)))
	var r simulatedReport
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if d.More() {
		t.Errorf("sim %s: more than one object", strings.Join(args, " "))
	}
	return r
}

// paperRow is a row of the table of PADME §4: entries of high, medium and low
// importance, and messages per entry of the Forward form.
type paperRow struct {
	entries  [3]int
	perEntry float64
}

// paperRows are Level, and Fair by how many of Reply and Release are Use; at
// t_m = 1 s and 0.5 s.
var paperRows = map[string][]paperRow{
	"1s":    {{[3]int{90, 90, 0}, 1.5}, {[3]int{14, 28, 52}, 30. / 7}, {[3]int{53, 52, 50}, 7. / 3}, {[3]int{46, 90, 44}, 2}},
	"500ms": {{[3]int{120, 120, 0}, 1.5}, {[3]int{22, 43, 84}, 30. / 7}, {[3]int{73, 73, 71}, 7. / 3}, {[3]int{61, 120, 59}, 2}},
}

func TestSimGivesThePapersTable(t *testing.T) {
	for tm, rows := range paperRows {
		for _, m := range protocol.AllModels() {
			t.Run(tm+"/"+m.String(), func(t *testing.T) {
				want := rows[0]
				if m.Priority == protocol.Fair {
					want = rows[1+int(m.Reply)+int(m.Release)]
				}
				got := report(t, "--algorithm", "padme", "--tree", "static", "--models", m.String(), "--nodes", "7", "--fanout", "2",
					"--priorities", "0,1,1,2,2,2,2", "--latency", tm, "--think", tm, "--cs", "1s", "--duration", "360s", "--seed", "1")
				total := 0
				for i, n := range want.entries {
					total += n
					if diff := got.Entries.ByPriority[fmt.Sprint(i)] - n; diff < -2 || diff > 2 {
						t.Errorf("priority %d: %d entries, want %d ± 2", i, got.Entries.ByPriority[fmt.Sprint(i)], n)
					}
				}
				if diff := got.Entries.Total - total; diff < -2 || diff > 2 {
					t.Errorf("%d entries, want %d ± 2", got.Entries.Total, total)
				}
				// The table has no column for the messages of Replace, which sends fewer.
				off := got.Messages.PerEntry/want.perEntry - 1
				if off > 0.05 || m.Request == protocol.RequestForward && off < -0.05 {
					t.Errorf("%.3f messages per entry, want %.3f ± 5 %%", got.Messages.PerEntry, want.perEntry)
				}
			})
		}
	}
}

func TestSimIsThePapersExampleByDefault(t *testing.T) {
	plain := mustSimulate(t)
	if named := mustSimulate(t, "--algorithm", "padme", "--models", "fair-forward-use-use", "--nodes", "7", "--fanout", "2",
		"--priorities", "0,1,1,2,2,2,2", "--latency", "1s", "--cs", "1s", "--think", "1s", "--duration", "360s", "--seed", "1"); named != plain {
		t.Errorf("the default differs from the example:\n%s", cmp.Diff(plain, named))
	}
	for line := range strings.Lines(plain) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > tableWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestSimReportAddsUp(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--algorithm", "central", "--latency", "uniform:1ms,20ms", "--cs", "normal:20ms,5ms", "--think", "lognormal:50ms,20ms"},
		{"--models", "lfff", "--every", "exponential:20s", "--request-priorities", "1,5,9"},
		{"--nodes", "30", "--fanout", "3", "--loss", "0.1", "--duplicate", "0.1", "--fifo=false", "--latency", "exponential:10ms", "--drift", "0.005"},
	} {
		r := report(t, args...)
		nodes, priorities, kinds := 0, 0, 0
		for _, n := range r.Entries.ByNode {
			nodes += n
		}
		for _, n := range r.Entries.ByPriority {
			priorities += n
		}
		for _, n := range r.Messages.ByKind {
			kinds += n
		}
		if total := r.Entries.Total; total == 0 || nodes != total || priorities != total || len(r.Entries.ByNode) != r.Scenario.Nodes {
			t.Errorf("%q: %d entries, by node %d, by priority %d", args, total, nodes, priorities)
		}
		if kinds != r.Messages.Total || math.Abs(r.Messages.PerEntry*float64(r.Entries.Total)-float64(kinds)) > 1e-6*float64(kinds) {
			t.Errorf("%q: %d messages, by kind %d, %v per entry", args, r.Messages.Total, kinds, r.Messages.PerEntry)
		}
		if len(r.Scenario.Priorities) != r.Scenario.Nodes || !r.Complete || r.Wait.P50 > r.Wait.P99 || r.SyncDelay.P50 > r.SyncDelay.P99 {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// TestSimNetworkIsAsBadAsAsked: each flag alone makes another run, whose log says
// what went wrong.
func TestSimNetworkIsAsBadAsAsked(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	common := []string{"--latency", "uniform:1ms,90ms", "--cs", "20ms", "--think", "100ms", "--duration", "60s", "--log", log, "-v"}
	perfect := report(t, common...)
	for flag, word := range map[string]string{"--loss=0.1": " lost", "--duplicate=0.1": " duplicated", "--fifo=false": "", "--drift=0.01": ""} {
		got := report(t, append(common, flag)...)
		if cmp.Equal(got, perfect) {
			t.Errorf("%s changes nothing", flag)
		}
		text, err := os.ReadFile(log)
		if err != nil || !strings.Contains(string(text), word) {
			t.Errorf("%s: nothing is%s (%v)", flag, word, err)
		}
		if got.Entries.Total == 0 {
			t.Errorf("%s: nobody enters any more", flag)
		}
	}
}

// TestSimReportIsAScenario: what --json says was run gives the same run again.
func TestSimReportIsAScenario(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in.yaml")
	if err := os.WriteFile(file, []byte(`
nodes: 3
latency: [[0s, 10ms, 20ms], [10ms, 0s, 5ms], [20ms, 7ms, 0s]]
cs: uniform:10ms,30ms
think: 100ms
duration: 20s
participants:
  - {id: B, priority: -3, think: exponential:50ms, request-priorities: [1, 4]}
  - {id: C, every: 300ms, deadlines: [100ms, 200ms], give-up: true}
faults:
  - {at: 5s, what: partition, groups: [[A], [B, C]]}
  - {at: 6s, what: heal}
  - {at: 8s, what: pause, node: C}
  - {at: 9s, what: resume, node: [C]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{},
		{"--algorithm", "raymond", "--loss", "0.1", "--latency", "uniform:10ms,20ms", "--seed", "9"},
		{"--nodes", "12", "--fanout", "3", "--priorities", "4", "--every", "exponential:9s", "--deadlines", "1s,9s", "--give-up", "--drift", "0.001", "--models", "deadline-forward-use-use"},
		{"--scenario", file},
	} {
		first := mustSimulate(t, append(args, "--json")...)
		var r struct{ Scenario json.RawMessage }
		if err := json.Unmarshal([]byte(first), &r); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(dir, "again.yaml")
		if err := os.WriteFile(again, r.Scenario, 0o600); err != nil {
			t.Fatal(err)
		}
		if second := mustSimulate(t, "--scenario", again, "--json"); second != first {
			t.Errorf("%q:\n%s\nbecomes\n%s", args, first, second)
		}
	}
}

func TestSimulationLineCountsAllRuns(t *testing.T) {
	seen := make([]simulation, 2)
	seen[0].total.Store(100e9)
	seen[0].now.Store(100e9)
	seen[0].events.Store(1_500_000)
	seen[1].total.Store(100e9)
	seen[1].now.Store(50e9)
	seen[1].events.Store(500_000)
	if got, want := simulationLine(seen, 2e9), "1 of 2 runs done, 75.0 % simulated, 1.00 million events per second"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := simulationLine(seen[1:], 2e9), "50s of 1m40s, 50.0 % simulated, 0.25 million events per second"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSimStopsAtAnyScale: a run in which a simulated millisecond is a million events
// ends when it is interrupted, and does not pass for one that is stuck.
func TestSimStopsAtAnyScale(t *testing.T) {
	s := newSimSpec()
	for name, value := range map[string]string{"latency": "1ns", "cs": "1ns", "think": "1ns", "duration": "1h"} {
		if err := s.options.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	padme := padmeOf(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	count := 0
	outcomes, err := s.simulateAll(ctx, []contender{padme}, 1, func(r *sim.Record) {
		if count++; count == 10_000 {
			cancel()
		}
	})
	if err != nil || outcomes[0].err != nil || outcomes[0].ended || outcomes[0].result.Entries == 0 {
		t.Errorf("%v, %+v", err, outcomes)
	}
}
