package reliable

import (
	"sync"
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// beatsPerLease is how often readers are told within a lease: two in a row may
// be lost or late.
const beatsPerLease = 4

// Assertion is when a writer, or all manual ones of a participant, were last
// said to be alive.
type Assertion struct {
	mu sync.Mutex
	at time.Time
}

// Assert says that the application is alive. It does not block.
func (a *Assertion) Assert(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.at) {
		a.at = now
	}
}

func (a *Assertion) last() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// lifeSigns is a writer's side of a finite lease.
type lifeSigns struct {
	*Assertion             // shared by writers that are manual by participant
	online     func() bool // automatic: whether readers can be reached
	sent       time.Time   // when readers were last told
	told       time.Time   // of which assertion
	lost       bool
	total      uint64 // how often it was lost
}

// Asserted follows that the application is alive. It takes no mutex.
func (s *Sender) Asserted(now time.Time) {
	if s.life.Assertion != nil && s.qos.Manual {
		s.life.Assert(now)
	}
}

// stayAlive tells readers of a finite lease that the writer is alive, or the
// application that it is not.
func (s *Sender) stayAlive(now time.Time) (next time.Time) {
	lease := s.qos.Lease
	if lease == 0 {
		return time.Time{}
	}
	l := &s.life
	if !l.lost && !now.Before(l.last().Add(lease)) {
		l.lost = true
		l.total++
		s.events.LivelinessLost(l.total)
	}
	if !s.qos.Manual && l.online() {
		l.Assert(now)
	}
	at := l.last()
	if over := at.Add(lease); now.Before(over) {
		if l.lost {
			l.lost, l.sent = false, time.Time{} // this news does not wait
		}
		next = over
	}
	due := l.sent.Add(lease / beatsPerLease)
	if !at.Equal(l.told) && !now.Before(due) {
		l.sent, l.told = now, at
		s.tellAlive(uint64(now.Sub(at)))
		due = now.Add(lease / beatsPerLease)
	}
	switch {
	case !s.qos.Manual: // offline, look again later
		next = timing.Earliest(next, now.Add(lease/beatsPerLease))
	case !at.Equal(l.told):
		next = timing.Earliest(next, due)
	}
	return next
}

// tellAlive tells all readers how long ago the writer was asserted.
func (s *Sender) tellAlive(age uint64) {
	for g, r := range s.readers {
		if r.gone.IsZero() {
			s.send(g, &wire.Repair{Op: wire.OpAlive, A: age})
		}
	}
}
