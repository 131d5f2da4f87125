package gateway

import (
	"container/heap"
	"time"

	"padme/qosmutex/jsonlock"
)

// deadlines are live tickets, the one that is due first at the front. A ticket may be due
// earlier than need be: then look finds nothing to do.
type deadlines []*ticket

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].due.Before(d[j].due) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i+1, j+1
}

// Push and Pop are for package heap.
func (d *deadlines) Push(x any) {
	t := x.(*ticket)
	*d = append(*d, t)
	t.index = len(*d)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	t := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	t.index = 0
	return t
}

func (d *deadlines) remove(t *ticket) {
	if t.index != 0 {
		heap.Remove(d, t.index-1)
	}
}

// schedule has a live ticket looked at in time.
func (s *active) schedule(t *ticket) {
	at := t.wakeAt()
	switch {
	case t.index == 0:
		t.due = at
		heap.Push(&s.deadlines, t)
	case at != t.due:
		t.due = at
		heap.Fix(&s.deadlines, t.index-1)
	}
	s.ring(s.deadlines[0].due)
}

// look settles what is over by now and sets the alarm for what is next.
func (s *active) look(now time.Time) {
	for more := true; more; {
		s.g.inTurn(func() { more = s.role.Check() == nil && s.settleSome(now) })
	}
	if s.role.Check() != nil { // what is left another gateway settles
		return
	}
	s.sweep(now, sweepEvery)
	s.rings = time.Time{}
	s.tellInLine(now)
	s.ring(s.swept.Add(sweepEvery))
	if len(s.deadlines) > 0 {
		s.ring(s.deadlines[0].due)
	}
}

// settleSome settles some of what is over, and reports whether there may be more.
func (s *active) settleSome(now time.Time) (more bool) {
	for range readAtOnce {
		if len(s.deadlines) == 0 || s.deadlines[0].due.After(now) {
			return false
		}
		s.settleNext(now)
	}
	return true
}

// settleNext settles the ticket that is due first, if it is over.
func (s *active) settleNext(now time.Time) {
	t := s.deadlines[0]
	if t.ends().After(now) {
		s.tellAgain(t, now)
		s.schedule(t)
		return
	}
	switch {
	case t.outcome == jsonlock.Waiting && t.heard.Add(t.lease).After(now):
		reason := jsonlock.WaitOver
		if t.detail = s.trouble(); t.try {
			reason = jsonlock.NotReady
		}
		s.g.count.refused.WithLabelValues(string(reason)).Inc()
		s.settle(t, jsonlock.Denied, reason)
	case t.gone:
		s.settle(t, jsonlock.Lost, jsonlock.GoneAway)
	default:
		s.settle(t, jsonlock.Expired, "")
	}
	s.push(t)
}

// lastWord is how long before the end of a validity another word is not of use any more.
const lastWord = 50 * time.Millisecond

// tellAgain tells a client that its hold lasts for longer than it was told, once the root has
// confirmed that: a slow device could not renew before the first word is over.
func (s *active) tellAgain(t *ticket, now time.Time) {
	if t.again.IsZero() || t.again.After(now) {
		return
	}
	t.again = time.Time{}
	switch left := t.hold.Remaining(); {
	case t.gone: // it ends when the client was told
	case left > s.brief && t.told.Before(now.Add(s.brief)):
		s.push(t)
	case left <= s.brief && left > lastWord:
		t.again = now.Add(left / 4)
	}
}

// ring sets the alarm to at, unless it rings before.
func (s *active) ring(at time.Time) {
	if s.rings.IsZero() || at.Before(s.rings) {
		s.rings = at
		s.alarm.Reset(time.Until(at))
	}
}

// sweep forgets clients of which nothing is left, unless that was done just now. While there
// are too many, nothing is left of those that neither wait nor hold.
func (s *active) sweep(now time.Time, every time.Duration) {
	if now.Sub(s.swept) < every {
		return
	}
	s.swept = now
	for name, c := range s.clients {
		least := 0
		if every == sweepSoon && c.live == 0 {
			least = len(c.ended)
		}
		s.g.remembered.Add(-int32(c.forget(now, least)))
		if c.idle(now) {
			delete(s.clients, name)
			s.g.know(name, s.topic, false)
		}
	}
}
