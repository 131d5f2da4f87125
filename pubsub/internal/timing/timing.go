// Package timing finds out what is due next.
package timing

import (
	"container/list"
	"time"
)

// Earliest returns the first of two moments of which zero is never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Deadlines watches that something happens to every instance within a period.
// The period is the same for all, so that the order of what happened last is the
// order in which they are due: nothing but the front of a list needs a timer.
// The zero value watches nothing.
type Deadlines struct {
	Period time.Duration // 0: off
	Total  uint64        // periods missed
	byKey  map[string]*list.Element
	queue  list.List // of *deadline, the first due first
}

type deadline struct {
	key string
	due time.Time
}

// Met begins the period of an instance again.
func (d *Deadlines) Met(key string, now time.Time) {
	if d.Period == 0 {
		return
	}
	if e := d.byKey[key]; e != nil {
		e.Value.(*deadline).due = now.Add(d.Period)
		d.queue.MoveToBack(e)
		return
	}
	if d.byKey == nil {
		d.byKey = map[string]*list.Element{}
	}
	d.byKey[key] = d.queue.PushBack(&deadline{key, now.Add(d.Period)})
}

// End stops watching an instance.
func (d *Deadlines) End(key string) {
	if e := d.byKey[key]; e != nil {
		d.queue.Remove(e)
		delete(d.byKey, key)
	}
}

// Restart gives all instances that are watched another period, from now on.
func (d *Deadlines) Restart(period time.Duration, now time.Time) {
	if d.Period = period; period == 0 {
		d.byKey = nil
		d.queue.Init()
	}
	for e := d.queue.Front(); e != nil; e = e.Next() {
		e.Value.(*deadline).due = now.Add(period)
	}
}

// Next returns when the first instance is due, zero if none is watched.
func (d *Deadlines) Next() time.Time {
	if e := d.queue.Front(); e != nil {
		return e.Value.(*deadline).due
	}
	return time.Time{}
}

// Missed calls f for each instance whose period is over, and begins its next
// one. Several periods that went by at once, in a process that was stopped, are
// counted but told once.
func (d *Deadlines) Missed(now time.Time, f func(key string)) {
	for e := d.queue.Front(); e != nil; e = d.queue.Front() {
		m := e.Value.(*deadline)
		if now.Before(m.due) {
			return
		}
		n := now.Sub(m.due)/d.Period + 1
		m.due = m.due.Add(n * d.Period)
		d.Total += uint64(n)
		d.settle(e)
		f(m.key)
	}
}

// settle moves e back to where it belongs: near the end, as it is due in nearly
// a period.
func (d *Deadlines) settle(e *list.Element) {
	due := e.Value.(*deadline).due
	after := d.queue.Back()
	for after != e && due.Before(after.Value.(*deadline).due) {
		after = after.Prev()
	}
	if after != e {
		d.queue.MoveAfter(e, after)
	}
}
