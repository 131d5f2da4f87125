package observer

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Journal gathers what robots note of their own holds, on a way which neither the
// death of a broker nor that of the robot itself interrupts. Events do not tell
// enough where processes are killed and stopped: one that was killed no longer says
// when it left, and one that was stopped says that it lost its hold when it wakes
// up, long after the hold was over. What robots note is that a hold passed Check at
// a time. A Journal is safe for concurrent use.
type Journal struct {
	mu    sync.Mutex
	stays map[stayID]*stay
}

// stayID names a hold. Life counts the processes that had the robot's name, as
// a fence that two of them claim is two holds.
type stayID struct {
	robot     string
	life      int
	frequency string
	fence     uint64
}

// stay is a hold, from the first time at which it passed Check to the last.
type stay struct{ from, to time.Time }

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{stays: map[stayID]*stay{}} }

// Note takes in that a hold passed Check at the given time.
func (j *Journal) Note(robot string, life int, frequency string, fence uint64, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := stayID{robot, life, frequency, fence}
	s := j.stays[id]
	if s == nil {
		s = &stay{at, at}
		j.stays[id] = s
	}
	s.from, s.to = earlier(s.from, at), later(s.to, at)
}

// Entries returns how many holds passed Check.
func (j *Journal) Entries() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.stays)
}

// Overlaps judges the holds: no two of one frequency may pass Check at the same
// time, and the later one must have the higher fence. It says nothing of frames.
func (j *Journal) Overlaps() (o Overlaps) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[string][]entry{}
	for id, s := range j.stays {
		all[id.frequency] = append(all[id.frequency], entry{entryID: entryID{resource: id.frequency, fence: id.fence}, at: s.from, end: s.to})
	}
	for _, entries := range all {
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.fence, b.fence)) })
		o.Intervals += overlapping(entries)
		o.Fences += notRising(entries)
	}
	return o
}

// Airtime returns how long a life of a robot had a frequency after since.
func (j *Journal) Airtime(robot string, life int, since time.Time) (sum time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, s := range j.stays {
		if id.robot == robot && id.life == life {
			sum += max(0, s.to.Sub(later(s.from, since)))
		}
	}
	return sum
}
