package robot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"

	"go.uber.org/goleak"
)

const (
	// lead is how long a world stands still before it moves: whoever has to be there may be
	// slow on a busy machine.
	lead     = 3 * time.Second
	patience = 40 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shadowed finds a world in which robot 1 is in radio contact for a second, falls
// into a shadow for two or more, and is back before five.
func shadowed(t *testing.T) scenario.Config {
	cfg := scenario.Default()
	cfg.Robots, cfg.Frequencies, cfg.Duration = 1, 1, time.Minute
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	for cfg.Seed = 1; cfg.Seed < 10_000; cfg.Seed++ {
		world := cfg.Area()
		walk := world.Walk(1)
		in, long, back := false, 0, false
		for tenth := range 50 {
			if world.Shadowed(walk.At(float64(tenth) / 10)) {
				in = in || tenth < 10
				long++
			} else if long > 0 {
				back = true
			}
		}
		if !in && long >= 20 && back {
			return cfg
		}
	}
	t.Fatal("no such world")
	return cfg
}

func start(t *testing.T, cfg scenario.Config) (*center.Center, *observer.Observer) {
	t.Helper()
	c, err := center.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	o, err := observer.Start(t.Context(), c.URL(), cfg.FrequencyNames())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, o
}

// A robot which is alone holds the only frequency nearly all the time. When it
// falls into a shadow, it loses the frequency, and gets it again afterwards.
func TestRobotInShadowLosesItsHoldAndComesBack(t *testing.T) {
	t.Parallel()
	cfg := shadowed(t)
	c, o := start(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			if r := o.Report(time.Now()); r.Entries >= 3 && r.Losses > 0 {
				return
			}
		}
	}()
	notes := map[uint64][]time.Time{} // by fence
	report, err := robot.Run(ctx, robot.Config{
		Scenario: cfg, Number: 1, URL: c.URL(), Start: time.Now().Add(lead),
		Journal: func(s robot.Sighting) { notes[s.Fence] = append(notes[s.Fence], s.At) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != report.Entries {
		t.Errorf("%d holds noted, of %d", len(notes), report.Entries)
	}
	most := 0
	for fence, times := range notes {
		most = max(most, len(times))
		if !slices.IsSortedFunc(times, time.Time.Compare) {
			t.Errorf("fence %d: notes go back in time", fence)
		}
	}
	if most < 10 {
		t.Errorf("at most %d notes of a hold", most)
	}
	settle, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := o.Settle(settle, report.Entries); err != nil {
		t.Fatal(err)
	}
	seen := o.Report(time.Now())
	if report.Dropouts == 0 || report.Losses == 0 || report.Losses != seen.Losses {
		t.Errorf("%d drop-outs, %d losses, %d of them published", report.Dropouts, report.Losses, seen.Losses)
	}
	if report.Entries < 3 || report.Entries != seen.Entries || seen.Overlaps.Total() != 0 {
		t.Errorf("%d entries, %d of them published, overlaps %+v", report.Entries, seen.Entries, seen.Overlaps)
	}
	if frames := c.Frames(); report.Frames == 0 || frames.Received == 0 || frames.Bad != 0 {
		t.Errorf("%d frames sent, received %+v", report.Frames, frames)
	}
	if report.Messages == 0 {
		t.Error("no message was counted")
	}
}

func TestRobotWithoutBrokerSaysSo(t *testing.T) {
	cfg := scenario.Default()
	report, err := robot.Run(t.Context(), robot.Config{Scenario: cfg, Number: 1, URL: "mqtt://127.0.0.1:1", Start: time.Now()})
	if err == nil || !strings.Contains(report.Error, "start a broker there") || report.Robot != "robot-1" {
		t.Fatalf("%+v, %v", report, err)
	}
}

func TestRobotWithoutCenterGivesUp(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	_, err = robot.Run(t.Context(), robot.Config{Scenario: scenario.Default(), Number: 1, URL: b.URL(), Start: time.Now()})
	if !errors.Is(err, qosmutex.ErrNoRoot) {
		t.Fatalf("%v, want no root", err)
	}
}

func TestRobotThatIsToldToStopBeforeItStartedReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := robot.Run(ctx, robot.Config{Scenario: scenario.Default(), Number: 2, URL: "mqtt://127.0.0.1:1", Start: time.Now()})
	if err != nil || report.Robot != "robot-2" {
		t.Fatalf("%+v, %v", report, err)
	}
}

// changing finds a world in which what robot 2 sees changes twice or more in its
// first four seconds, all in radio contact, and returns what it sees in turn.
func changing(t *testing.T) (scenario.Config, []int) {
	cfg := scenario.Default()
	cfg.Robots, cfg.Frequencies, cfg.Duration, cfg.Transmission = 2, 1, time.Minute, time.Minute
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	for cfg.Seed = 1; cfg.Seed < 10_000; cfg.Seed++ {
		world := cfg.Area()
		walk := world.Walk(2)
		var seen []int
		last, steady := 0, true
		for i := range 40 {
			at := walk.At(float64(i) / 10)
			n := len(world.Seen(at))
			if len(seen) == 0 || seen[len(seen)-1] != n {
				steady = steady && (len(seen) == 0 || i-last >= 5) // it can be told apart
				seen, last = append(seen, n), i
			}
			steady = steady && !world.Shadowed(at) && !world.Shadowed(world.Walk(1).At(float64(i)/10))
		}
		if steady && len(seen) >= 3 {
			return cfg, seen
		}
	}
	t.Fatal("no such world")
	return cfg, nil
}

// Robot 1 keeps the only frequency, so robot 2 waits all the time.
func TestWaitingRobotIsAsImportantAsWhatItSees(t *testing.T) {
	t.Parallel()
	cfg, seen := changing(t)
	c, o := start(t, cfg)
	began := time.Now().Add(lead)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var robots sync.WaitGroup
	defer robots.Wait()
	live := func(number int) {
		robots.Go(func() {
			if _, err := robot.Run(ctx, robot.Config{Scenario: cfg, Number: number, URL: c.URL(), Start: began}); err != nil {
				t.Error(err)
			}
		})
	}
	live(1)
	for o.Progress().Entries == 0 {
		if ctx.Err() != nil {
			t.Fatal("robot 1 does not get the frequency")
		}
		time.Sleep(time.Millisecond)
	}
	live(2)
	var want, got []int64
	for _, n := range seen {
		want = append(want, scenario.Priority(n))
	}
	for ctx.Err() == nil && len(got) < len(want) {
		if w, ok := o.Waiting()["robot-2"]; ok && (len(got) == 0 || got[len(got)-1] != w.Priority) {
			got = append(got, w.Priority)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if !slices.Equal(got, want) {
		t.Fatalf("seeing %v it waited with priorities %v, want %v", seen, got, want)
	}
}
