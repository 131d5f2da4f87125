package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/cmd/internal/recording"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/cmd/rescue-demo/internal/world"
	"padme/qosmutex"
	"padme/tests/extent"
)

func TestComparedModels(t *testing.T) {
	level, err := qosmutex.ParseModels("level-replace-use-retain")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"fair": "fair-replace-use-retain", "FFFF": "fair-forward-forward-forward", "level-forward-use-use": "level-forward-use-use"} {
		if m, err := comparedModels(text, level); err != nil || m.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, m, err, want)
		}
	}
	for _, text := range []string{"level", "level-replace-use-retain", "unfair", "aging-forward-forward-forward", "fair-", "-"} {
		if m, err := comparedModels(text, level); err == nil || !strings.Contains(err.Error(), "--compare") {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
}

func TestBadCommandLinesOfTwoRuns(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--compare unfair":                    "--compare",
		"--compare fair --switch-at 1s":       "switch-at",
		"--compare fair --chaos --processes":  "chaos",
		"--compare fair --record a.padme":     "two files",
		"--compare fair --record a,a":         "two files",
		"--compare fair --record a,":          "two files",
		"--replay a,b --duration 5s":          "leave --duration out",
		"--record a,b":                        "--record without --compare",
		"--replay a":                          "two files",
		"--replay a,b --compare fair":         "replay",
		"--replay a,b --record c,d":           "replay",
		"--replay /no/such/one,/no/such/file": "--replay",
		"--replay a,b --web off":              "without a page",
	} {
		code, _, stderr := play(t, t.Context(), strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
	}
}

// A recording that is there already is kept, and so nothing is run nor left.
func TestRecordingsAreNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := play(t, t.Context(), "--compare", "fair", "--record", fresh+","+old)
	if _, err := os.Stat(fresh); code == exitOK || !strings.Contains(stderr, "--record: ") || !os.IsNotExist(err) {
		t.Errorf("exit code %d, %s, %v", code, stderr, err)
	}
}

// Both runs have the same robots on the same ways, under models of their own, and each is
// recorded.
func TestTwoRunsSideBySide(t *testing.T) {
	extent.NotShort(t, "a run")
	t.Parallel()
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "level.padme"), filepath.Join(dir, "fair.padme")}
	code, stdout, stderr := play(t, t.Context(), "--compare", "fair", "--duration", "6s", "--robots", "4", "--seed", "7", "--json", "--record", strings.Join(files[:], ","))
	var sums struct{ Sides [2]summary.Summary }
	if err := json.Unmarshal([]byte(stdout), &sums); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s%s", code, err, stdout, stderr)
	}
	for i, models := range []string{"level-forward-forward-forward", "fair-forward-forward-forward"} {
		s := sums.Sides[i]
		if s.Models != models || s.SwitchedAt != nil || s.Entries == 0 || s.Overlaps != 0 || s.Seed != 7 {
			t.Errorf("run %d: %+v", i+1, s)
		}
		airtime := 0.0
		for _, c := range s.ByClass {
			airtime += c.Airtime
		}
		if airtime <= 0 || airtime > 2*s.Duration {
			t.Errorf("run %d: %v s of airtime on two frequencies in %v s", i+1, airtime, s.Duration)
		}
		checkRecording(t, files[i], models)
	}
}

// checkRecording expects robots where the seed has them, and the models in force.
func checkRecording(t *testing.T, name, models string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cfg := scenario.Default()
	cfg.Robots, cfg.Seed = 4, 7
	w := world.New(cfg)
	var start int64
	places, views, over := 0, 0, false
	_, err = recording.Read(file, func(m *recording.Message) error {
		switch strings.Join(m.Levels, "/") {
		case "show/scene":
			var s telemetry.Scene
			if err := json.Unmarshal([]byte(m.Text), &s); err != nil {
				return err
			}
			start, over = s.Start, s.Over
		case "show/robots":
			var all telemetry.Robots
			if err := json.Unmarshal([]byte(m.Text), &all); err != nil || start == 0 {
				return err
			}
			for _, r := range all.Robots {
				places++
				// Times are published in milliseconds, in which a robot goes 0.012 yards, and places to 0.1.
				if p := w.Place(r.Number, time.Duration(all.At-start)*time.Millisecond); math.Abs(p.X-r.X)+math.Abs(p.Y-r.Y) > 0.2 {
					t.Errorf("%s: %s is at %v, %v, want %v", name, r.Name, r.X, r.Y, p)
				}
			}
		case "lock/frequencies/view":
			if m.Text != "" && !strings.Contains(m.Text, models) {
				t.Errorf("%s: the view is %s, want models %s", name, m.Text, models)
			}
			views++
		}
		return nil
	})
	if err != nil || places < 20 || views == 0 || !over {
		t.Errorf("%s: %v, %d places, %d views, over: %v", name, err, places, views, over)
	}
}
