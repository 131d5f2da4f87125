package workload

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex"
)

// asking names an asker. The same client of two gateways is two askers.
type asking struct{ name, via string }

// member is a participant that numbers requests, its own or those of its clients, one after
// another.
type member struct {
	last  uint64 // number of its last request
	lives int    // how often it was restarted
	gaps  int    // how often requests of it are missing
}

// restarted is how far numbers jump if a participant was restarted: they begin with the
// time in microseconds.
const restarted = 1000

// request is one that has not ended.
type request struct {
	number  uint64
	seq     int // among those of its asker
	arrived int64
	granted bool
}

type asker struct {
	asking
	of          *member
	lives, gaps int // of the member, when this asker asked last

	out      []request // in the order in which they came
	seq      int       // of the last one
	asked    instant   // the last one
	ended    instant   // the last end
	followed bool      // nothing is missing since asked
	idle     bool      // the last one has ended

	// During the requests from+1 to to, or so, an earlier one was out.
	from, to, overlaps int

	priorities       map[int64]int
	asks             map[int]int // for which resource how often
	cs, think, every sample
}

// instant is a time of an asker's clock, and when its event was recorded.
type instant struct {
	at      time.Time
	arrived int64
}

// numberOf is the number of a request of a member.
func numberOf(request, of string) (number uint64, ok bool) {
	number, err := strconv.ParseUint(strings.TrimPrefix(request, of+"/"), 10, 64)
	return number, err == nil
}

// event takes one event of the lock.
func (w *Workload) event(e *qosmutex.Event) error {
	switch e.Event {
	case qosmutex.EventRequested, qosmutex.EventGranted, qosmutex.EventReleased, qosmutex.EventLost, qosmutex.EventWithdrawn, qosmutex.EventDenied:
	default:
		return nil
	}
	of := e.Via
	if of == "" {
		of = e.Participant
	}
	number, numbered := numberOf(e.Request, of)
	if !numbered || e.Participant == "" || len(e.Participant) > maxName || len(of) > maxName || len(e.Resource) > maxName || e.At.IsZero() {
		w.counts.malformed++
		return nil
	}
	who := asking{e.Participant, e.Via}
	if e.Event == qosmutex.EventRequested {
		return w.requested(who, of, number, e)
	}
	a := w.askers[who]
	at := -1
	if a != nil {
		at = slices.IndexFunc(a.out, func(r request) bool { return r.number == number })
	}
	switch {
	case e.Event == qosmutex.EventGranted && at >= 0:
		w.granted(a, &a.out[at], e)
	case e.Event == qosmutex.EventGranted:
		w.calm = calm{}
	case at < 0:
		w.counts.headless++
		w.calm = calm{free: true, since: w.now}
	default:
		w.end(a, at, e)
	}
	return nil
}

const (
	maxPriorities = 16 // of one asker that are told apart
	maxAsked      = 64 // resources of one asker
)

func (a *asker) note(priority int64, resource int) {
	if _, known := a.priorities[priority]; known || len(a.priorities) < maxPriorities {
		a.priorities[priority]++
	}
	if _, known := a.asks[resource]; resource >= 0 && (known || len(a.asks) < maxAsked) {
		a.asks[resource]++
	}
}

// resource is the number of a name, -1 if there are too many.
func (w *Workload) resource(name string) int {
	i, known := w.resources[name]
	switch {
	case known:
		return i
	case name == "" || len(w.names) >= maxResources:
		return -1
	}
	w.resources[name] = len(w.names)
	w.names = append(w.names, name)
	return len(w.names) - 1
}
