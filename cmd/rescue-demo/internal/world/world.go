// Package world is what is so whatever anybody knows of it: where each robot is,
// what it sees and whether its radio reaches the center. It follows from the
// scenario and from the changes made to it since, so that every process that was
// told of these sees the same world.
package world

import (
	"slices"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/scenario"
)

// Kind is a kind of change.
type Kind string

// The kinds of changes.
const (
	Pause  Kind = "pause"  // a robot stops where it is
	Resume Kind = "resume" // and goes on
	Cut    Kind = "cut"    // a robot's radio fails
	Mend   Kind = "mend"   // and works again
	Drop   Kind = "drop"   // one more survivor is there
)

// Change is something that was done to the world. It crosses processes as JSON.
type Change struct {
	At    time.Duration // from the start of the run
	Kind  Kind
	Robot int        `json:",omitempty"` // its number, from 1; of all but Drop
	Place area.Point // of Drop
}

// World is the world of one run. It is safe for concurrent use.
type World struct {
	cfg scenario.Config

	mu      sync.Mutex
	now     *area.Area // with the survivors dropped so far; never changed, only replaced
	walks   []*area.Walk
	pauses  [][]pause // by robot, in order of time
	cut     []bool
	changes []Change
}

// pause lasts until to; zero: it is not over.
type pause struct{ from, to time.Duration }

// New makes the world that cfg describes, with the changes already made to it.
func New(cfg scenario.Config, changes ...Change) *World {
	w := &World{cfg: cfg, now: cfg.Area(), pauses: make([][]pause, cfg.Robots), cut: make([]bool, cfg.Robots)}
	for number := range cfg.Robots {
		w.walks = append(w.walks, w.now.Walk(number+1))
	}
	for _, c := range changes {
		w.Apply(c)
	}
	return w
}

// Apply changes the world. Changes of one robot must come in order of time. What
// would change nothing, and a robot that there is not, is left alone.
func (w *World) Apply(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := c.Robot - 1
	if c.Kind != Drop && (i < 0 || i >= len(w.walks)) {
		return
	}
	switch c.Kind {
	case Pause:
		if !w.paused(i) {
			w.pauses[i] = append(w.pauses[i], pause{from: max(c.At, 1)})
		}
	case Resume:
		if w.paused(i) {
			last := &w.pauses[i][len(w.pauses[i])-1]
			last.to = max(c.At, last.from)
		}
	case Cut, Mend:
		w.cut[i] = c.Kind == Cut
	case Drop:
		w.now = w.now.With(c.Place)
	}
	w.changes = append(w.changes, c)
}

func (w *World) paused(i int) bool {
	n := len(w.pauses[i])
	return n > 0 && w.pauses[i][n-1].to == 0
}

// Changes returns what was done so far, for another World of the same run.
func (w *World) Changes() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}

// Area returns the area as it is now. It does not change.
func (w *World) Area() *area.Area {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Place returns where a robot is, or was, when the run has lasted for the given
// time.
func (w *World) Place(robot int, at time.Duration) area.Point {
	w.mu.Lock()
	defer w.mu.Unlock()
	walked := at
	for _, p := range w.pauses[robot-1] {
		if at <= p.from {
			break
		}
		if p.to == 0 || at < p.to {
			walked -= at - p.from
		} else {
			walked -= p.to - p.from
		}
	}
	return w.walks[robot-1].At(w.cfg.WorldTime(walked))
}

// Sees returns how many survivors a robot sees, or saw, at the given time.
func (w *World) Sees(robot int, at time.Duration) int {
	p := w.Place(robot, at)
	n := len(w.Area().Seen(p))
	for _, c := range w.Changes() {
		if c.Kind == Drop && c.At > at && p.Distance(c.Place) <= area.Sight {
			n-- // it was not there yet
		}
	}
	return n
}

// Shadowed reports whether a ruin stands between a robot and the center at the
// given time.
func (w *World) Shadowed(robot int, at time.Duration) bool {
	return w.Area().Shadowed(w.Place(robot, at))
}

// Failed reports whether a robot's radio was cut and not mended.
func (w *World) Failed(robot int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[robot-1]
}

// Paused reports whether a robot was paused and not resumed.
func (w *World) Paused(robot int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused(robot - 1)
}
