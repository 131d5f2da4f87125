package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rootCrash is a scenario in which A, the root, ends ten seconds after the measured time
// has begun.
const rootCrash = `
latency: 10ms
cs: 100ms
think: 100ms
duration: 60s
faults: [{at: 10s, what: crash, node: A}]
`

func scenarioFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// longestSilence is the longest time without an entry after the crash in a log, up to the
// end of the run, 50 s after the crash.
func longestSilence(t *testing.T, log string) (longest float64) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	last, end := 0.0, 0.0
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(line, "s ")
		at, err := strconv.ParseFloat(word, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(rest, "A crashes"):
			last, end = at, at+50
		case last > 0 && strings.Contains(rest, " enters crane"):
			longest, last = max(longest, at-last), at
		}
	}
	if end == 0 {
		t.Fatal("nobody has crashed")
	}
	return max(longest, end-last)
}

func TestSimGoesOnAfterTheRootEnded(t *testing.T) {
	file, log := scenarioFile(t, rootCrash), filepath.Join(t.TempDir(), "log")
	for ttl, seconds := range map[string]float64{"": 3, "--ttl=1s": 1, "--ttl=8s": 8} {
		args := []string{"--scenario", file, "--log", log}
		if ttl != "" {
			args = append(args, ttl)
		}
		got := report(t, args...)
		if gap := longestSilence(t, log); gap > 2*seconds {
			t.Errorf("%q: nobody enters for %.3f s, want at most two TTL, %v s", ttl, gap, 2*seconds)
		}
		for i, n := range got.Entries.ByNode {
			if n < 20 {
				t.Errorf("%q: participant %d enters %d times", ttl, i, n)
			}
		}
	}
	mustSimulate(t, "--scenario", file, "--log", log, "--tree", "static")
	if gap := longestSilence(t, log); gap < 40 {
		t.Errorf("a static tree has lost its root, and entries go on after %.3f s", gap)
	}
}

func TestSimComparesWhenTheRootEnds(t *testing.T) {
	out := json.NewDecoder(strings.NewReader(mustSimulate(t, "--scenario", scenarioFile(t, rootCrash), "--compare", "raymond,central,padme", "--json")))
	var rows [3]simulatedReport
	for i := range rows {
		if err := out.Decode(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if best := rows[0]; best.Scenario.Algorithm != padmeName || best.Entries.Total < 3*rows[1].Entries.Total {
		t.Errorf("%s is first with %d entries, before %s with %d", best.Scenario.Algorithm, best.Entries.Total, rows[1].Scenario.Algorithm, rows[1].Entries.Total)
	}
}

// TestSimRestartsTheRoot: whoever was the root comes back and is served again.
func TestSimRestartsTheRoot(t *testing.T) {
	got := report(t, "--scenario", scenarioFile(t, strings.Replace(rootCrash, "}]", "}, {at: 20s, what: restart, node: A}]", 1)))
	if n := got.Entries.ByNode[0]; n < 60 {
		t.Errorf("A enters %d times, want more than the 24 before it ended", n)
	}
}

func TestSimSaysWhichTree(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "PADME has a root that is elected and a tree that adapts, TTL 60s",
		"--ttl=50s":                    "tree that adapts, TTL 50s",
		"--tree=static":                "PADME has the root and tree that are given, TTL 60s",
		"--compare=padme":              "PADME has a root that is elected",
		"--algorithm=raymond":          "",
		"--compare=raymond,central":    "",
		"--latency=1ms --duration=60s": "that adapts, TTL 3s",
	} {
		out := strings.Join(strings.Fields(mustSimulate(t, strings.Fields(args)...)), " ")
		if want == "" && strings.Contains(out, "PADME has") || !strings.Contains(out, want) {
			t.Errorf("%q: want %q in\n%s", args, want, out)
		}
	}
}
