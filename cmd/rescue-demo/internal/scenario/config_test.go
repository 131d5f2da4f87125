package scenario_test

import (
	"strings"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
	"padme/qosmutex"
)

func TestDefaultIsValid(t *testing.T) {
	c := scenario.Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.SwitchAt != c.Duration/2 {
		t.Errorf("switches at %v of %v, want the half", c.SwitchAt, c.Duration)
	}
	if m := c.FairModels(); m.String() != "fair-forward-forward-forward" {
		t.Errorf("switches to %v", m)
	}
}

func TestBadConfigNamesTheFlagAndWhatToGive(t *testing.T) {
	tests := map[string]func(*scenario.Config){
		"--robots 0":            func(c *scenario.Config) { c.Robots = 0 },
		"--robots 100000":       func(c *scenario.Config) { c.Robots = 100000 },
		"--frequencies 0":       func(c *scenario.Config) { c.Frequencies = 0 },
		"--survivors -1":        func(c *scenario.Config) { c.Survivors = -1 },
		"--width 1":             func(c *scenario.Config) { c.Width = 1 },
		"--height 1e+09":        func(c *scenario.Config) { c.Height = 1e9 },
		"--duration -5s":        func(c *scenario.Config) { c.Duration = -5 * time.Second },
		"--switch-at 2m0s":      func(c *scenario.Config) { c.SwitchAt = 2 * time.Minute },
		"--speed 0":             func(c *scenario.Config) { c.Speed = 0 },
		"--transmission 0s":     func(c *scenario.Config) { c.Transmission = 0 },
		"--models fair":         func(c *scenario.Config) { c.Models.Priority = qosmutex.Fair },
		`--broker "wss://x:1"`:  func(c *scenario.Config) { c.Broker = "wss://x:1" },
		`--broker "mqtt://"`:    func(c *scenario.Config) { c.Broker = "mqtt://" },
		`--broker "mqtt://u@h"`: func(c *scenario.Config) { c.Broker = "mqtt://u@h" },
		`--listen "nowhere"`:    func(c *scenario.Config) { c.Listen = "nowhere" },
	}
	for want, spoil := range tests {
		c := scenario.Default()
		spoil(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: accepted", want)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ": give ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	c := scenario.Default()
	c.Robots, c.Speed = 0, -1
	if err := c.Validate(); err == nil || strings.Count(err.Error(), "--") != 2 {
		t.Fatalf("got %v, want two mistakes", err)
	}
}

func TestBrokerGetsItsSchemeAndPort(t *testing.T) {
	for given, want := range map[string]string{
		"localhost": "mqtt://localhost:1883", "tcp://h:99": "mqtt://h:99", "mqtt://h/": "mqtt://h:1883", "[::1]": "mqtt://[::1]:1883",
	} {
		c := scenario.Default()
		c.Broker = given
		if err := c.Validate(); err != nil || c.Broker != want {
			t.Errorf("%q became %q (%v), want %q", given, c.Broker, err, want)
		}
	}
}

// underChaos is a run under chaos with room for it.
func underChaos() scenario.Config {
	c := scenario.Default()
	c.Processes, c.Chaos, c.Models = true, true, scenario.ChaosModels
	return c
}

func TestChaosLeavesTimeToServeEverybody(t *testing.T) {
	c := underChaos()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	// Each of four robots to a frequency may have been overtaken while the switch was
	// yet to come, and must have a turn.
	if made := c.SwitchAt * 5; made > c.Duration-c.Calm() || c.Calm() < 20*time.Second {
		t.Errorf("switch at %v of %v, of which %v are calm", c.SwitchAt, c.Duration, c.Calm())
	}
	if c.Duration-c.Calm() < scenario.WarmUp+8*time.Second {
		t.Errorf("%v of %v are calm", c.Calm(), c.Duration)
	}
}

func TestBadChaosNamesTheFlagAndWhatToGive(t *testing.T) {
	for want, spoil := range map[string]func(*scenario.Config){
		"--chaos without --processes: give both":  func(c *scenario.Config) { c.Processes = false },
		"--chaos with --broker: give one of them": func(c *scenario.Config) { c.Broker = "mqtt://h" },
		"--duration 20s: give at least 44":        func(c *scenario.Config) { c.Duration = 20 * time.Second },
		"--switch-at 50s: give at most 5.4s":      func(c *scenario.Config) { c.SwitchAt = 50 * time.Second },
		"--duration 1m0s: give at least 5m":       func(c *scenario.Config) { c.Robots = 100 },
		"--robots 0: give 1 to":                   func(c *scenario.Config) { c.Robots = 0 },
	} {
		c := underChaos()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFrequenciesAreDistinctTopicLevels(t *testing.T) {
	c := scenario.Default()
	c.Frequencies = 64
	seen := map[string]bool{}
	for _, name := range c.FrequencyNames() {
		if _, err := pubsub.EncodeLevel(name); err != nil || seen[name] {
			t.Errorf("%q: repeated or unusable (%v)", name, err)
		}
		seen[name] = true
	}
	if len(seen) != 64 {
		t.Errorf("%d frequencies, want 64", len(seen))
	}
	c.Frequencies = 1
	if n := len(c.FrequencyNames()); n != 1 {
		t.Errorf("%d frequencies, want 1", n)
	}
}

func TestMoreSurvivorsAreMoreImportant(t *testing.T) {
	for n := range 20 {
		p := scenario.Priority(n)
		if n < 9 && p <= scenario.Priority(n+1) {
			t.Errorf("%d survivors have priority %d, %d have %d", n, p, n+1, scenario.Priority(n+1))
		}
		if got, want := scenario.ClassOfPriority(p), scenario.ClassOf(n); got != want {
			t.Errorf("%d survivors: class %v by priority, want %v", n, got, want)
		}
	}
	// Another participant may publish any priority.
	if scenario.ClassOfPriority(-1<<63) != scenario.Classes-1 || scenario.ClassOfPriority(1<<62) != 0 {
		t.Error("classes of priorities out of range")
	}
}
