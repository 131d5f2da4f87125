package summary_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/cmd/rescue-demo/internal/world"
)

func example(t *testing.T) summary.Run {
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	run := summary.Run{
		World:  world.New(cfg),
		Config: cfg, Broker: "mqtt://127.0.0.1:1", Start: start, End: start.Add(20 * time.Second), Messages: 10,
		Frames:   center.Frames{Received: 90, Bytes: 100_000},
		Robots:   []robot.Report{{Robot: "robot-1", Entries: 6, Frames: 60, Messages: 12, Dropouts: 2}, {Robot: "robot-2", Entries: 4, Frames: 40, Messages: 8, Dropouts: 1}},
		Observed: observer.Report{Entries: 10, Losses: 1, Switched: start.Add(10 * time.Second), Phases: []observer.Phase{{From: start}, {From: start.Add(10 * time.Second), Fair: true}}},
	}
	run.Observed.SyncDelay = observer.Delay{Count: 9, Mean: time.Millisecond, P50: 500 * time.Microsecond, P99: 2 * time.Second, Max: 2 * time.Second}
	run.Observed.Inversions = observer.Inversions{Pending: 3, Level: 1, Fair: 2}
	run.Observed.Classes[0] = observer.Class{Wait: observer.Delay{Count: 4, Mean: 3 * time.Second}, AirtimeLevel: time.Second, AirtimeFair: 3 * time.Second}
	run.Observed.Classes[3] = observer.Class{Wait: observer.Delay{Count: 6, Mean: time.Second}, AirtimeLevel: 3 * time.Second, AirtimeFair: 2 * time.Second}
	return run
}

func TestSummaryAddsUp(t *testing.T) {
	s := summary.Of(example(t))
	if s.Messages != 30 || s.MessagesPerEntry != 3 || s.Dropouts != 3 || s.Frames.Sent != 100 || s.Unseen != 0 {
		t.Errorf("%+v", s)
	}
	if zero, many := s.ByClass["0"], s.ByClass["3+"]; zero.Before.Airtime != 0.25 || zero.After.Airtime != 0.6 || many.Before.Airtime != 0.75 || many.After.Airtime != 0.4 {
		t.Errorf("airtime of the classes: %+v", s.ByClass)
	}
	before, after := 0.0, 0.0
	for _, c := range s.ByClass {
		before, after = before+c.Before.Robots, after+c.After.Robots
	}
	if math.Abs(before-1) > 1e-9 || math.Abs(after-1) > 1e-9 || s.ByClass["0"].Before.Robots == 0 {
		t.Errorf("the robots' time: %+v", s.ByClass)
	}
	if s.SwitchedAt == nil || *s.SwitchedAt != 10 || s.Duration != 20 {
		t.Errorf("switched at %v of %v", s.SwitchedAt, s.Duration)
	}
}

func TestSummaryTellsWhatWentWrong(t *testing.T) {
	run := example(t)
	run.Robots[0].Entries = 9
	run.Robots[1].Error = "no root"
	run.Failures = []error{errors.New("observer: missed")}
	run.Observed.Overlaps = observer.Overlaps{Intervals: 1, Fences: 2, Frames: 4}
	s := summary.Of(run)
	if s.Unseen != 3 || s.Overlaps != 7 || len(s.Failures) != 2 {
		t.Fatalf("%+v", s)
	}
	var b strings.Builder
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"robot-2: no root", "observer: missed", "3 entries, which the next line does not cover", "overlaps: 7 ", "1 intervals, 2 fences, 4 frames"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestTextFitsEightyColumnsAndSaysItAll(t *testing.T) {
	var b strings.Builder
	if err := summary.Of(example(t)).Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{
		"8 robots, 2 frequencies, 30 survivors, 20.0 s, seed 1", "after 10.0 s fair-forward-forward-forward",
		" 0 survivors      4     3.00 s", "25 % (", "60 % (", "3 entries while", "(1 under level, 2 under fair)",
		"messages per entry   3.0", "mean 1.0 ms, p50 500 µs, p99 2.00 s, of 9", "90 of 100 received, 100 kB, 0 bad",
		"3 drop-outs, 1 holds lost", "overlaps: 0 ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestRunWithoutAnythingHasASummary(t *testing.T) {
	run := example(t)
	run.Observed, run.Robots, run.End = observer.Report{}, nil, run.Start
	s := summary.Of(run)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err) // as for a division by zero
	}
	for _, key := range []string{"entries", "overlaps", "byClass", "inversions", "messagesPerEntry", "syncDelay"} {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("no %q in %s", key, text)
		}
	}
	if strings.Contains(string(text), "switchedAt") {
		t.Error("switched although it was not")
	}
	if err := s.Write(new(strings.Builder)); err != nil {
		t.Fatal(err)
	}
}

func TestOvertakingIsJudged(t *testing.T) {
	bound := (&scenario.Config{Robots: 8}).FairBound()
	for name, test := range map[string]struct {
		fair  observer.Fair
		text  string
		wrong bool
	}{
		"within the bound": {
			observer.Fair{Longest: 6200 * time.Millisecond, LongestOf: "robot-3", Overtaken: bound, OvertakenOf: "robot-8", Bounded: true},
			"wait under fair      at most 6.20 s (robot-3)\novertaken            by at most 23 later requests (robot-8); 23 may\n", false,
		},
		"beyond it": {
			observer.Fair{Longest: 30 * time.Second, LongestOf: "robot-8", Overtaken: bound + 1, OvertakenOf: "robot-8", Bounded: true},
			"OVERTAKEN            by 24 later requests (robot-8); at most 23 may\n", true,
		},
		"none promised": {observer.Fair{Longest: 30 * time.Second, LongestOf: "robot-8"}, "(with use or replace nothing bounds it)\n", false},
	} {
		run := example(t)
		run.Observed.Fair = test.fair
		s := summary.Of(run)
		if err := s.Fair.Err(); (err != nil) != test.wrong {
			t.Errorf("%s: %v", name, err)
		}
		var b strings.Builder
		if err := s.Write(&b); err != nil || !strings.Contains(b.String(), test.text) {
			t.Errorf("%s: no %q in\n%s", name, test.text, b.String())
		}
		run.Journal = observer.NewJournal()
		if s := summary.Of(run); s.Fair.Err() != nil {
			t.Errorf("%s, with faults: %v", name, s.Fair.Err())
		}
	}
}
