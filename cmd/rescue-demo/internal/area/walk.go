package area

import (
	"math/rand/v2"
	"sort"
)

// Pace is how fast a robot goes, in yards a second.
const Pace = 12.0

// Walk is the way of one robot: straight legs between places chosen at random,
// around the obstacles. It depends on the area's seed and the robot alone. A
// Walk is not safe for concurrent use.
type Walk struct {
	area   *Area
	random *rand.Rand
	legs   []leg
}

// leg starts at point start at time from, in seconds.
type leg struct {
	from  float64
	start Point
}

// Walk returns the way of the robot-th robot. It starts within radio contact.
func (a *Area) Walk(robot int) *Walk {
	w := &Walk{area: a, random: rand.New(rand.NewPCG(a.seed, uint64(streamRobots+robot)))}
	start := a.free(w.random)
	for range tries {
		if !a.Shadowed(start) {
			break
		}
		start = a.free(w.random)
	}
	w.legs = []leg{{0, start}}
	return w
}

// At returns where the robot is t seconds after the start; before it, where it
// starts.
func (w *Walk) At(t float64) Point {
	for w.last().from <= t {
		w.extend()
	}
	next := sort.Search(len(w.legs), func(i int) bool { return w.legs[i].from > t })
	if next == 0 {
		return w.legs[0].start
	}
	a, b := w.legs[next-1], w.legs[next]
	return a.start.Toward(b.start, (t-a.from)/(b.from-a.from))
}

func (w *Walk) last() leg { return w.legs[len(w.legs)-1] }

// extend adds the next leg. Where no way past the obstacles is found the robot
// stays for a second.
func (w *Walk) extend() {
	here := w.last()
	for range tries {
		to := w.area.free(w.random)
		length := here.start.Distance(to)
		if length > 1 && !w.area.blocked(here.start, to, margin/2) {
			w.legs = append(w.legs, leg{here.from + length/Pace, to})
			return
		}
	}
	w.legs = append(w.legs, leg{here.from + 1, here.start})
}
