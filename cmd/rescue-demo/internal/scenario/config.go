// Package scenario says what one run of the demonstration is like: how many
// robots, frequencies and survivors, how long, how fast, under which models.
package scenario

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"padme/cmd/rescue-demo/internal/area"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

// Names under which the participants of a run find each other.
const (
	Domain    = "rescue"
	LockTopic = "frequencies"
	Center    = "center"
	Observer  = "observer"
	Base      = "base"      // creates and roots the lock topic where that can be killed
	Telemetry = "telemetry" // publishes what the page shows and takes its commands
)

// Limits of a run; every robot costs a connection and some goroutines.
const (
	maxRobots      = 200
	maxFrequencies = 64
	maxSurvivors   = 10_000
	minSide        = 150  // yards; a smaller area has no room for a walk
	maxSide        = 5000 // yards
	minDuration    = 2 * time.Second
)

// Config is one run.
type Config struct {
	Robots, Frequencies, Survivors int
	Width, Height                  float64       // of the area, in yards
	Duration                       time.Duration // from the start of the robots
	SwitchAt                       time.Duration // when the center changes Level to Fair; 0: half of Duration
	Transmission                   time.Duration // longest time on the air per entry, in the simulated world
	Speed                          float64       // pace of the simulated world against real time
	Seed                           uint64
	Models                         qosmutex.Models
	Broker                         string // URL; empty: the embedded broker
	Listen                         string // address of the embedded broker
	WebSocket                      string // where it takes WebSockets; empty: nowhere
	Processes                      bool   // every robot is a process of its own
	Chaos                          bool   // processes, also those of the root and of the broker, are killed and stopped
	ChaosSeed                      uint64 // makes other faults
	// Domain is where the run is at its broker; empty: in the constant of this name.
	Domain string `json:",omitempty"`
	// Fixed: the models stay as they are, whatever their priority model.
	Fixed bool `json:",omitempty"`
}

// Default is a good show on any machine.
func Default() Config {
	return Config{
		Robots:       8,
		Frequencies:  2,
		Survivors:    30,
		Width:        480, // with 30 survivors, a robot sees 1.5 of them on average
		Height:       320,
		Duration:     time.Minute,
		Transmission: time.Second, // 40 entries in 20 s, enough to see the shares
		Speed:        1,
		Seed:         1,
		Models:       qosmutex.Models{Priority: qosmutex.Level}, // Forward throughout: under Fair nobody is overtaken beyond a bound
		Listen:       "127.0.0.1:0",
		ChaosSeed:    1,
	}
}

// Validate fills in what is left out and reports everything that is wrong.
func (c *Config) Validate() error {
	if c.SwitchAt == 0 {
		c.SwitchAt = c.Duration / 2
		if c.Chaos && c.lastSwitch() > 0 { // else the duration is refused below
			c.SwitchAt = min(c.SwitchAt, c.lastSwitch())
		}
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(1 <= c.Robots && c.Robots <= maxRobots, "--robots %d: give 1 to %d", c.Robots, maxRobots)
	check(1 <= c.Frequencies && c.Frequencies <= maxFrequencies, "--frequencies %d: give 1 to %d", c.Frequencies, maxFrequencies)
	check(0 <= c.Survivors && c.Survivors <= maxSurvivors, "--survivors %d: give 0 to %d", c.Survivors, maxSurvivors)
	check(minSide <= c.Width && c.Width <= maxSide, "--width %v: give %d to %d yards", c.Width, minSide, maxSide)
	check(minSide <= c.Height && c.Height <= maxSide, "--height %v: give %d to %d yards", c.Height, minSide, maxSide)
	check(c.Duration >= minDuration, "--duration %v: give at least %v", c.Duration, minDuration)
	check(0 <= c.SwitchAt && c.SwitchAt <= c.Duration, "--switch-at %v: give a time within the duration of %v", c.SwitchAt, c.Duration)
	check(0.1 <= c.Speed && c.Speed <= 10, "--speed %v: give 0.1 to 10", c.Speed)
	check(100*time.Millisecond <= c.Transmission && c.Transmission <= time.Minute, "--transmission %v: give 100ms to 1m", c.Transmission)
	check(c.Fixed || c.Models.Priority == qosmutex.Level, "--models %v: give models that begin with level; the center switches to fair itself, see --switch-at", c.Models)
	errs = append(errs, c.checkBroker())
	if err := errors.Join(errs...); err != nil || !c.Chaos {
		return err
	}
	return c.checkChaos()
}

// checkBroker refuses URLs which the robots cannot dial themselves: they cut
// their own TCP connections.
func (c *Config) checkBroker() error {
	if c.Broker == "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return fmt.Errorf("--listen %q: give host:port, such as 127.0.0.1:1883: %w", c.Listen, err)
		}
		return nil
	}
	scheme, host, found := strings.Cut(c.Broker, "://")
	if !found {
		scheme, host = "mqtt", c.Broker
	}
	host = strings.TrimSuffix(host, "/")
	if scheme != "mqtt" && scheme != "tcp" || host == "" || strings.ContainsAny(host, "/@?#") {
		return fmt.Errorf("--broker %q: give mqtt://host:port without TLS or credentials; the robots open and cut the TCP connections themselves", c.Broker)
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "1883")
	}
	c.Broker = "mqtt://" + host
	return nil
}

// FairModels returns the models which the center switches to.
func (c *Config) FairModels() qosmutex.Models {
	m := c.Models
	m.Priority = qosmutex.Fair
	return m
}

// FairBound is how many later requests may overtake a robot's under Fair, if all the
// others wait when it asks.
func (c *Config) FairBound() int { return protocol.FairBound(c.Robots - 1) }

// FrequencyNames returns the frequencies in MHz: two calling channels first, then
// the channels above the first.
func (c *Config) FrequencyNames() []string {
	names := []string{"146.520", "446.000"}
	for i := 1; len(names) < c.Frequencies; i++ {
		names = append(names, fmt.Sprintf("%.3f", 146.520+0.015*float64(i)))
	}
	return names[:c.Frequencies]
}

// RobotName returns the participant id of a robot, counted from 1.
func RobotName(number int) string { return fmt.Sprintf("robot-%d", number) }

// Area makes the world of the run.
func (c *Config) Area() *area.Area {
	return area.New(area.Config{Width: c.Width, Height: c.Height, Survivors: c.Survivors, Seed: c.Seed})
}

// WorldTime returns the time of the simulated world, in seconds, when the run
// has lasted for the given real time.
func (c *Config) WorldTime(elapsed time.Duration) float64 { return elapsed.Seconds() * c.Speed }

// RealTime returns how long a time of the simulated world really takes.
func (c *Config) RealTime(world time.Duration) time.Duration {
	return time.Duration(float64(world) / c.Speed)
}
