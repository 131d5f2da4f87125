package pubsub

import (
	"container/list"
	"time"
)

type (
	// OfferedDeadlineMissed says that this writer did not write Instance within
	// its Deadline. It comes again for each further period, until the instance is
	// written, disposed or unregistered.
	OfferedDeadlineMissed struct {
		Instance string // as SampleInfo.Key
		Total    uint64 // periods missed by this writer so far, over all instances
	}
	// RequestedDeadlineMissed says that this reader got no sample of Instance
	// within its Deadline. It comes again for each further period, until a sample
	// comes or the instance is not alive any more.
	RequestedDeadlineMissed struct {
		Instance string // as SampleInfo.Key
		Total    uint64 // periods missed by this reader so far, over all instances
	}
)

func (OfferedDeadlineMissed) event()   {}
func (RequestedDeadlineMissed) event() {}

// deadlines watches that something happens to every instance within a period.
// The period is the same for all, so that the order of what happened last is the
// order in which they are due: nothing but the front of a list needs a timer.
// The zero value watches nothing.
type deadlines struct {
	period time.Duration // 0: off
	total  uint64        // periods missed
	byKey  map[string]*list.Element
	queue  list.List // of *deadline, the first due first
}

type deadline struct {
	key string
	due time.Time
}

// met begins the period of an instance again.
func (d *deadlines) met(key string, now time.Time) {
	if d.period == 0 {
		return
	}
	if e := d.byKey[key]; e != nil {
		e.Value.(*deadline).due = now.Add(d.period)
		d.queue.MoveToBack(e)
		return
	}
	if d.byKey == nil {
		d.byKey = map[string]*list.Element{}
	}
	d.byKey[key] = d.queue.PushBack(&deadline{key, now.Add(d.period)})
}

// end stops watching an instance.
func (d *deadlines) end(key string) {
	if e := d.byKey[key]; e != nil {
		d.queue.Remove(e)
		delete(d.byKey, key)
	}
}

// next returns when the first instance is due, zero if none is watched.
func (d *deadlines) next() time.Time {
	if e := d.queue.Front(); e != nil {
		return e.Value.(*deadline).due
	}
	return time.Time{}
}

// missed calls f for each instance whose period is over, and begins its next
// one. Several periods that went by at once, in a process that was stopped, are
// counted but told once.
func (d *deadlines) missed(now time.Time, f func(key string)) {
	for e := d.queue.Front(); e != nil; e = d.queue.Front() {
		m := e.Value.(*deadline)
		if now.Before(m.due) {
			return
		}
		n := now.Sub(m.due)/d.period + 1
		m.due = m.due.Add(n * d.period)
		d.total += uint64(n)
		d.settle(e)
		f(m.key)
	}
}

// settle moves e back to where it belongs: near the end, as it is due in nearly
// a period.
func (d *deadlines) settle(e *list.Element) {
	due := e.Value.(*deadline).due
	after := d.queue.Back()
	for after != e && due.Before(after.Value.(*deadline).due) {
		after = after.Prev()
	}
	if after != e {
		d.queue.MoveAfter(e, after)
	}
}

// wrote follows what the application did to an instance.
func (s *sender) wrote(key string, what status, now time.Time) {
	if what == statusData {
		s.deadlines.met(key, now)
	} else {
		s.deadlines.end(key)
	}
}

// deadlinesMissed tells of instances that were not written in time.
func (s *sender) deadlinesMissed(now time.Time) (next time.Time) {
	s.deadlines.missed(now, func(level string) {
		key, _ := DecodeLevel(level) // it was encoded by Write
		s.events.add(OfferedDeadlineMissed{key, s.deadlines.total})
	})
	return s.deadlines.next()
}

// deadlinesMissed tells of instances of which no sample came in time. The owner
// of such an instance loses it.
func (r *receiver) deadlinesMissed(now time.Time) (next time.Time) {
	d := &r.cache.deadlines
	d.missed(now, func(key string) {
		r.cache.ownerLate(key)
		r.events.add(RequestedDeadlineMissed{key, d.total})
	})
	return d.next()
}
