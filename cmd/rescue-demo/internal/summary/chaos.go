package summary

import (
	"errors"
	"fmt"
	"time"

	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/observer"
)

// Chaos is what was done to a run, and whether it survived.
type Chaos struct {
	Seed   uint64             `json:"seed"`
	Faults map[chaos.Kind]int `json:"faults"`
	Acts   []Act              `json:"acts"`
	Calm   float64            `json:"calm"` // since when nothing was done
	Robots []Robot            `json:"robots"`

	overlaps observer.Overlaps
	entries  int
}

// Act is one thing that was done.
type Act struct {
	At   float64    `json:"at"`
	Kind chaos.Kind `json:"kind"`
	What string     `json:"what"`
}

// Robot is what became of a robot.
type Robot struct {
	Robot string `json:"robot"`
	Lives int    `json:"lives"` // processes that had its name
	Alive bool   `json:"alive"`
	// What the last of them had, in all and in the calm.
	Airtime       float64 `json:"airtime"`
	AirtimeInCalm float64 `json:"airtimeInCalm"`
	// Contact is its longest time without a radio shadow in the calm. One that has
	// Needed or more must be served.
	Contact float64 `json:"contact"`
	Needed  float64 `json:"needed"`
}

// Served reports whether a robot got what it must.
func (r Robot) Served() bool { return !r.Alive || r.AirtimeInCalm > 0 || r.Contact < r.Needed }

// NewChaos begins a report with what was done and what the robots' journals say.
func NewChaos(seed uint64, acts []chaos.Act, j *observer.Journal) *Chaos {
	c := &Chaos{
		Seed: seed, Faults: map[chaos.Kind]int{}, Calm: chaos.Calm(acts).Seconds(),
		overlaps: j.Overlaps(), entries: j.Entries(),
	}
	counts := chaos.Count(acts)
	for _, k := range chaos.Kinds() {
		c.Faults[k] = counts[k]
	}
	for _, a := range acts {
		c.Acts = append(c.Acts, Act{a.At.Round(time.Millisecond).Seconds(), a.Kind, a.String()})
	}
	return c
}

// judgeBy takes the overlaps from the journals. A frame with an old fence is none:
// a robot may be stopped between looking at its hold and sending, and no lock can
// prevent that; the center refuses the frame.
func (s *Summary) judgeBy(c *Chaos) {
	s.Chaos = c
	s.trust(c.overlaps, c.entries)
}

// trust takes what the journals say of the holds for what was observed: what broker
// and robots had not passed on when they were killed is there, and only there.
func (s *Summary) trust(overlaps observer.Overlaps, entries int) {
	s.Overlaps, s.OverlapKinds = overlaps.Total(), OverlapKinds(overlaps)
	s.Unseen, s.Entries = 0, max(s.Entries, entries)
}

// Err says what did not go well, if anything.
func (c *Chaos) Err() error {
	var errs []error
	for _, k := range chaos.Kinds() {
		if c.Faults[k] == 0 {
			errs = append(errs, fmt.Errorf("no fault of kind %s happened", k))
		}
	}
	for _, r := range c.Robots {
		if !r.Served() {
			errs = append(errs, fmt.Errorf("%s lives and had no airtime after the last fault", r.Robot))
		}
	}
	return errors.Join(errs...)
}

func (c *Chaos) write(line func(string, ...any)) {
	line("chaos, seed %d", c.Seed)
	for _, a := range c.Acts {
		line("%6.1f s  %s", a.At, a.What)
	}
	line("%s", chaos.Tell(c.Faults))
	line("")
	line("robot       lives  airtime of the last  since the last fault")
	for _, r := range c.Robots {
		note := ""
		switch {
		case !r.Alive:
			note = "  dead"
		case !r.Served():
			note = "  NOT SERVED"
		case r.AirtimeInCalm == 0:
			note = fmt.Sprintf("  contact %.1f s", r.Contact)
		}
		line("%-10s %6d %18.2f s %19.2f s%s", r.Robot, r.Lives, r.Airtime, r.AirtimeInCalm, note)
	}
	line("")
}
