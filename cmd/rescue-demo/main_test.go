package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/tests/extent"
	"padme/tests/parallel"

	"go.uber.org/goleak"
)

// asProgram makes the test binary be the program, for tests of real processes.
const asProgram = "RESCUE_DEMO_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asLiar) != "" && len(os.Args) > 1 && os.Args[1] == robotName {
		lie()
	}
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") { // a part: the test would start itself
		main()
	}
	parallel.Tests(2)
	goleak.VerifyTestMain(m)
}

// play runs the program in this process and returns what it says.
func play(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func parse(t *testing.T, text string) summary.Summary {
	t.Helper()
	var s summary.Summary
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		t.Fatalf("no summary in %q: %v", text, err)
	}
	if rest := strings.TrimSpace(text[decoder.InputOffset():]); rest != "" {
		t.Fatalf("standard output has more than one object: %q", rest)
	}
	return s
}

// A broker that is not ours retains the view of an earlier run, which decides nothing.
func TestSecondRunAtTheSameBroker(t *testing.T) {
	extent.Long(t, "two whole runs")
	extent.NotShort(t, "real time")
	t.Parallel()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	for n := range 2 {
		code, out, errs := play(t, t.Context(), "--broker", b.URL(), "--robots", "3", "--duration", "14s", "--json", "--web", "off")
		if code != exitOK {
			t.Fatalf("run %d ended with %d: %s", n+1, code, errs)
		}
		check(t, parse(t, out))
	}
}

// check asserts what holds for every run that went well.
func check(t *testing.T, s summary.Summary) {
	t.Helper()
	if s.Overlaps != 0 || s.OverlapKinds != (summary.OverlapKinds{}) {
		t.Errorf("overlaps: %+v", s.OverlapKinds)
	}
	if s.Entries == 0 || s.Unseen != 0 || len(s.Failures) != 0 {
		t.Errorf("%d entries, %d unseen, failures %q", s.Entries, s.Unseen, s.Failures)
	}
	entries, before, robots := 0, 0.0, 0.0
	for _, name := range []string{"0", "1", "2", "3+"} {
		c, ok := s.ByClass[name]
		if !ok {
			t.Errorf("no class %s in %v", name, s.ByClass)
		}
		entries += c.Entries
		before += c.Before.Airtime
		robots += c.Before.Robots
	}
	if entries != s.Entries || math.Abs(before-1) > 1e-6 || math.Abs(robots-1) > 1e-6 {
		t.Errorf("the classes have %d of %d entries, %v of the airtime and %v of the robots' time", entries, s.Entries, before, robots)
	}
	if s.MessagesPerEntry < 1 {
		t.Errorf("%v messages per entry, a request alone is one", s.MessagesPerEntry)
	}
	if s.Frames.Received == 0 || s.Frames.Bad != 0 || s.Frames.Received > uint64(s.Frames.Sent) {
		t.Errorf("frames %+v", s.Frames)
	}
}

func TestFiveSecondsWithTheEmbeddedBroker(t *testing.T) {
	extent.NotShort(t, "real time")
	t.Parallel()
	code, stdout, stderr := play(t, t.Context(), "--duration", "5s", "--json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	s := parse(t, stdout)
	check(t, s)
	if s.SyncDelay.Count == 0 || s.SyncDelay.P50 > 0.5 {
		t.Errorf("synchronization delay %+v", s.SyncDelay)
	}
	if s.SwitchedAt == nil || math.Abs(*s.SwitchedAt-2.5) > 1 {
		t.Errorf("switched to fair at %v, want about 2.5 s", s.SwitchedAt)
	}
	if f := s.Fair; f == nil || f.Bound != 7+16 || f.Longest <= 0 {
		t.Errorf("waits under fair: %+v", f)
	}
	if s.Robots != 8 || len(s.Frequencies) != 2 || s.Survivors != 30 || s.Duration < 5 {
		t.Errorf("%d robots, frequencies %v, %d survivors, %v s", s.Robots, s.Frequencies, s.Survivors, s.Duration)
	}
	if !strings.Contains(stderr, "mosquitto_sub -h 127.0.0.1 -p ") {
		t.Errorf("how to watch is not told: %q", stderr)
	}
}

// TestNobodyIsOvertakenBeyondTheBound: whatever the area and the walks, a change from
// level to fair leaves nobody behind.
func TestNobodyIsOvertakenBeyondTheBound(t *testing.T) {
	extent.Long(t, "three runs")
	extent.NotShort(t, "real time")
	for _, seed := range []string{"1", "2", "3"} {
		t.Run(seed, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := play(t, t.Context(), "--seed", seed, "--duration", "16s", "--switch-at", "6s", "--speed", "5", "--json")
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			s := parse(t, stdout)
			t.Logf("under fair %+v", s.Fair)
			if err := s.Fair.Err(); err != nil || s.Fair == nil || s.Fair.Bound == 0 {
				t.Errorf("%+v: %v", s.Fair, err)
			}
		})
	}
}

// The same as real processes, against a broker which is there already.
func TestProcessesAtARunningBroker(t *testing.T) {
	extent.NotShort(t, "real time")
	t.Parallel()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	code, stdout, stderr := play(t, t.Context(), "--duration", "4s", "--robots", "4", "--speed", "3",
		"--processes", "--broker", b.URL(), "--switch-at", "4s")
	if code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, want := range []string{"broker at " + b.URL(), "4 robots, 2 frequencies", "overlaps: 0 ", "3+ survivors", "messages per entry"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "failed") || strings.HasPrefix(line, "unseen") {
			t.Error(line)
		}
	}
}

func TestInterruptedRunIsSummedUp(t *testing.T) {
	extent.NotShort(t, "real time")
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(6*time.Second, cancel)
	defer timer.Stop()
	began := time.Now()
	code, stdout, stderr := play(t, ctx, "--duration", "1h", "--json", "--robots", "3")
	if code != exitInterrupted || time.Since(began) > 20*time.Second {
		t.Fatalf("exit code %d after %v: %s", code, time.Since(began), stderr)
	}
	s := parse(t, stdout)
	check(t, s)
	if !s.Interrupted || s.SwitchedAt != nil {
		t.Errorf("interrupted %v, switched at %v", s.Interrupted, s.SwitchedAt)
	}
}

func TestInterruptedStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, stdout, stderr := play(t, ctx); code != exitInterrupted || stdout != "" || !strings.Contains(stderr, "interrupted") {
		t.Fatalf("exit code %d: %q %q", code, stdout, stderr)
	}
}

func TestBadFlagsSayWhatToGive(t *testing.T) {
	tests := []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--robots", "0"}, "--robots 0: give 1 to 200", exitUsage},
		{[]string{"--duration", "-5s"}, "--duration -5s: give at least 2s", exitUsage},
		{[]string{"--duration", "soon"}, "invalid argument", exitUsage},
		{[]string{"--models", "polite"}, "level|fair", exitUsage},
		{[]string{"--models", "fair-replace-use-use"}, "--switch-at", exitUsage},
		{[]string{"--switch-at", "0s"}, "--switch-at 0s: give a time after the start", exitUsage},
		{[]string{"--switch-at", "2m"}, "within the duration", exitUsage},
		{[]string{"--broker", "mqtt://127.0.0.1:1"}, "start a broker there or correct the URL", exitFailed},
		{[]string{"--broker", "http://x"}, "give mqtt://host:port", exitUsage},
		{[]string{"--broker", "x", "--listen", "y"}, "none of the others can be", exitUsage},
		{[]string{"--listen", "256.0.0.1:1"}, "256.0.0.1", exitFailed},
		{[]string{"--chaos"}, "--chaos without --processes: give both", exitUsage},
		{[]string{"--chaos", "--processes", "--broker", "mqtt://h"}, "--chaos with --broker: give one of them", exitUsage},
		{[]string{"--chaos", "--processes", "--duration", "20s"}, "--duration 20s: give at least 44", exitUsage},
		{[]string{"--seed", "-1"}, `invalid argument "-1" for "--seed": want a whole number that is not negative`, exitUsage},
		{[]string{"--chaos-seed", "1.5"}, `invalid argument "1.5" for "--chaos-seed": want a whole number that is not negative`, exitUsage},
		{[]string{"--chaos-seed", "2"}, "--chaos-seed without --chaos: give both", exitUsage},
		{[]string{"dance"}, "dance", exitUsage},
		{[]string{robotName}, "no configuration on standard input", exitFailed},
		{[]string{baseName}, "no configuration on standard input", exitFailed},
		{[]string{brokerName}, "no configuration on standard input", exitFailed},
	}
	for _, test := range tests {
		code, stdout, stderr := play(t, t.Context(), test.args...)
		if code != test.code || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("%v: exit code %d, %q, want %q (and no output: %q)", test.args, code, stderr, test.want, stdout)
		}
	}
}

// allFaults is chaos with a fault of every kind.
func allFaults(robots ...summary.Robot) *summary.Chaos {
	c := &summary.Chaos{Faults: map[chaos.Kind]int{}, Robots: robots}
	for _, k := range chaos.Kinds() {
		c.Faults[k] = 1
	}
	return c
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name string
		s    summary.Summary
		ok   bool
	}{
		{"good", summary.Summary{Entries: 1}, true},
		{"overlaps", summary.Summary{Entries: 1, Overlaps: 1}, false},
		{"nothing happened", summary.Summary{}, false},
		{"interrupted before anything happened", summary.Summary{Interrupted: true}, true},
		{"interrupted with overlaps", summary.Summary{Interrupted: true, Overlaps: 2}, false},
		{"chaos without faults", summary.Summary{Entries: 1, Chaos: new(summary.Chaos)}, false},
		{"chaos that was interrupted", summary.Summary{Entries: 1, Interrupted: true, Chaos: new(summary.Chaos)}, true},
		{"failure under chaos", summary.Summary{Entries: 1, Chaos: allFaults(), Failures: []string{"robot-1 ended by itself"}}, false},
		{"not served", summary.Summary{Entries: 1, Chaos: allFaults(summary.Robot{Alive: true, Contact: 2, Needed: 1})}, false},
		{"survived chaos", summary.Summary{Entries: 1, Chaos: allFaults(summary.Robot{Alive: true, AirtimeInCalm: 1})}, true},
	}
	for _, test := range tests {
		if err := verdict(test.s); (err == nil) != test.ok || err != nil && !errors.Is(err, errVerdict) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestHelpShowsExamplesAndHidesRobots(t *testing.T) {
	code, stdout, _ := play(t, t.Context(), "--help")
	if code != exitOK || !strings.Contains(stdout, "rescue-demo --duration 20s --json") ||
		!strings.Contains(stdout, "rescue-demo --processes --chaos ") || strings.Contains(stdout, "Play one part") || strings.Contains(stdout, "standard input") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

// startBroker returns the URL of a broker that runs until the end of the test.
func startBroker(t *testing.T) string {
	t.Helper()
	extent.NotShort(t, "real processes")
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b.URL()
}

// Who opens the page wants to take its tour, which takes longer than a run does by default.
func TestARunThatIsLookedAtLastsLonger(t *testing.T) {
	for _, test := range []struct {
		args  []string
		chaos bool
		want  time.Duration
	}{
		{want: scenario.Default().Duration},
		{args: []string{"--open"}, want: openDuration},
		{args: []string{"--open", "--duration", "9s"}, want: scenario.Default().Duration}, // which the flag has changed
		{args: []string{"--open", "--chaos", "--processes"}, chaos: true, want: scenario.Default().Duration},
	} {
		c, cfg := newCommand(nil), scenario.Default()
		cfg.Chaos, cfg.Processes = test.chaos, test.chaos
		if err := c.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		if err := complete(c, &cfg, cfg.Models.String()); err != nil || cfg.Duration != test.want {
			t.Errorf("%v: %v, %v, want %v", test.args, cfg.Duration, err, test.want)
		}
	}
}
