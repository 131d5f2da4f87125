// Package screen shows a running rescue on a terminal: the area from above, the
// frequencies with their holders, and who waits.
package screen

import (
	"time"

	"padme/cmd/rescue-demo/internal/area"
)

// Scene is what there is to see at one moment.
type Scene struct {
	Area               *area.Area
	Elapsed, Duration  time.Duration
	Models             string // in force
	SwitchAt           time.Duration
	Frequencies        []Frequency
	Robots             []Robot
	Entries, Overlaps  int
	Frames, FrameBytes uint64
	Faults             int    // inflicted on purpose
	LastAct            string // of chaos
}

// Frequency is one frequency as last published.
type Frequency struct {
	Name    string
	Status  string        // of the lock: what is shown if there is no Holder
	Holder  string        // empty: nobody is known to have it
	Since   time.Duration // for how long it has been so
	Waiting int
}

// Robot is one robot.
type Robot struct {
	At        area.Point
	Survivors int  // that it sees
	Shadow    bool // cut off from the center
	Paused    bool
	Dead      bool
	On        string        // the frequency that it holds, or empty
	Waits     time.Duration // how long it has waited for one; 0: it does not
}
