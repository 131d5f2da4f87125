package pubsub

import (
	"fmt"
	"sync"
	"time"
)

// Liveliness is who says that a writer is alive, within each LivelinessLease.
type Liveliness uint8

// Kinds of liveliness, weakest first.
const (
	// Automatic: the participant does, as long as its process runs and is
	// connected.
	Automatic Liveliness = iota
	// ManualByParticipant: the application does for all such writers of the
	// participant at once, by writing with one of them or AssertLiveliness.
	ManualByParticipant
	// ManualByTopic: the application does for each writer, by writing with it or
	// Writer.AssertLiveliness.
	ManualByTopic
)

type (
	// LivelinessLost says that this writer was not asserted within its
	// LivelinessLease; its readers take it for dead until it is.
	LivelinessLost struct {
		Total uint64 // how often so far
	}
	// LivelinessChanged says that a matched writer is alive, or not any more: its
	// lease ended, it was closed, or the broker says that it died.
	LivelinessChanged struct {
		Writer          GUID
		Alive           bool
		AliveWriters    int // of those matched
		NotAliveWriters int // of those matched
	}
)

func (LivelinessLost) event()    {}
func (LivelinessChanged) event() {}

// beatsPerLease is how often readers are told within a lease: two in a row may
// be lost or late.
const beatsPerLease = 4

// assertion is when a writer, or all manual ones of a participant, were last
// said to be alive.
type assertion struct {
	mu sync.Mutex
	at time.Time
}

func (a *assertion) assert(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.at) {
		a.at = now
	}
}

func (a *assertion) last() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// lifeSigns is a writer's side of a finite lease.
type lifeSigns struct {
	*assertion             // shared by writers that are manual by participant
	online     func() bool // automatic: whether readers can be reached
	sent       time.Time   // when readers were last told
	told       time.Time   // of which assertion
	lost       bool
	total      uint64 // how often it was lost
}

// asserted follows that the application wrote.
func (s *sender) asserted(now time.Time) {
	if s.life.assertion != nil && s.qos.Liveliness != Automatic {
		s.life.assert(now)
	}
}

// stayAlive tells readers of a finite lease that the writer is alive, or the
// application that it is not.
func (s *sender) stayAlive(now time.Time) (next time.Time) {
	lease := s.qos.LivelinessLease
	if lease == 0 {
		return time.Time{}
	}
	l := &s.life
	if !l.lost && !now.Before(l.last().Add(lease)) {
		l.lost = true
		l.total++
		s.events.add(LivelinessLost{l.total})
	}
	if s.qos.Liveliness == Automatic && l.online() {
		l.assert(now)
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
	case s.qos.Liveliness == Automatic: // offline, look again later
		next = earliest(next, now.Add(lease/beatsPerLease))
	case !at.Equal(l.told):
		next = earliest(next, due)
	}
	return next
}

// tellAlive tells all readers how long ago the writer was asserted.
func (s *sender) tellAlive(age uint64) {
	for g, r := range s.readers {
		if r.gone.IsZero() {
			s.send(g, &repairMessage{op: opAlive, a: age})
		}
	}
}

// alive handles a writer's word that it was asserted a while ago.
func (r *receiver) alive(from GUID, m *repairMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[writerLevels(from)]
	if w == nil || w.guid != from || !w.matched || w.lease == 0 {
		return
	}
	now := time.Now()
	due := now.Add(w.lease - time.Duration(min(m.a, uint64(w.lease))))
	if !w.vouched || due.After(w.due) { // not lowered by what comes late or twice
		w.vouched, w.due = true, due
	}
	if now.Before(w.due) {
		r.revive(w, now)
	} else {
		r.arm(now)
	}
}

// revive makes w alive if it was not.
func (r *receiver) revive(w *remoteWriter, now time.Time) {
	if !w.alive {
		w.alive = true
		r.livelinessChanged(w)
	}
	if w.lease > 0 {
		if !now.Before(w.due) { // nobody has said until when
			w.due = now.Add(w.lease)
		}
		r.arm(w.due)
	}
}

// greet begins the lease of a writer that matches.
func (r *receiver) greet(w *remoteWriter, o *timeOffer, now time.Time) {
	w.lease, w.strength = o.Lease, o.Strength
	w.vouched, w.due = false, now.Add(w.lease)
	r.revive(w, now)
}

// bury makes a writer not alive: others own and keep its instances.
func (r *receiver) bury(w *remoteWriter, now time.Time) {
	if w.alive {
		w.alive = false
		r.cache.writerGone(w, now)
		r.livelinessChanged(w)
	}
}

// leasesOver finds writers that were not asserted in time.
func (r *receiver) leasesOver(now time.Time) (next time.Time) {
	for _, w := range r.writers {
		switch {
		case !w.alive || w.lease == 0:
		case now.Before(w.due):
			next = earliest(next, w.due)
		default:
			r.bury(w, now)
		}
	}
	return next
}

func (r *receiver) livelinessChanged(w *remoteWriter) {
	e := LivelinessChanged{Writer: w.guid, Alive: w.alive}
	for _, o := range r.writers {
		switch {
		case o.matched && o.alive:
			e.AliveWriters++
		case o.matched:
			e.NotAliveWriters++
		}
	}
	r.events.add(e)
}

// lifeOf returns how a new writer shows that it is alive, with a finite lease or for
// others of its participant that have one; that it is made counts as an assertion.
func (x *exchange) lifeOf(q *QoS) lifeSigns {
	l := lifeSigns{assertion: &assertion{}, online: x.p.Connected}
	if q.LivelinessLease == 0 && q.Liveliness != ManualByParticipant {
		return lifeSigns{}
	}
	if q.Liveliness == ManualByParticipant {
		l.assertion = &x.manual
	}
	l.assert(time.Now())
	return l
}

// AssertLiveliness says that the application is alive: for this writer if it is
// ManualByTopic, for all writers of the participant that are ManualByParticipant
// if it is one. An automatic one needs none. It does not block. The error is why
// the writer has ended.
func (w *Writer[T]) AssertLiveliness() error {
	x := &w.topic.p.exchange
	if w.over() {
		return x.err("writer", w.topic.name)
	}
	w.send.asserted(time.Now())
	signal(x.wake)
	return nil
}

// AssertLiveliness says that the application is alive, for all writers that are
// ManualByParticipant. It does not block. The error is why the participant has
// ended.
func (p *Participant) AssertLiveliness() error {
	if p.ctx.Err() != nil {
		return fmt.Errorf("pubsub: participant %q: %w", p.id, p.Err())
	}
	p.exchange.manual.assert(time.Now())
	signal(p.exchange.wake)
	return nil
}
