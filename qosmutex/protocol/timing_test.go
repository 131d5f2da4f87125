package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestTimingSaysWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Timing){
		"TTL 0 ns must be positive":                                                                 func(c *Timing) { c.TTL = 0 },
		"heartbeat 0 ns must be positive: begin with LAN()":                                         func(c *Timing) { c.Heartbeat = 0 },
		"TTL 500 ms is below four heartbeats of 200 ms, which are 800 ms: set the TTL with WithTTL": func(c *Timing) { c.TTL, c.Heartbeat = 500*Millisecond, 200*Millisecond },
		"clock drift 0.3 is not between 0 and 0.2":                                                  func(c *Timing) { c.Drift = 0.3 },
		"join wait 0 ns must be positive":                                                           func(c *Timing) { c.JoinWait = 0 },
		"hop -1 ns is negative":                                                                     func(c *Timing) { c.Hop = -1 },
		"move delay -1 ns is negative":                                                              func(c *Timing) { c.MoveAfter = -1 },
	} {
		c := LAN()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
