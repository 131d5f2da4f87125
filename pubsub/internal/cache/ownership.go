package cache

import (
	"maps"
	"time"

	"padme/pubsub/internal/wire"
)

// Exclusive ownership is arbitrated by each reader for itself, from what it has
// heard so far: two readers may disagree for a while. It is not a lock.

// stronger reports whether w comes before o; there are no ties.
func (w *Writer) stronger(o *Writer) bool { return w.strongerWith(w.Strength, o) }

// strongerWith is stronger if w had another strength.
func (w *Writer) strongerWith(strength int, o *Writer) bool {
	if strength != o.Strength {
		return strength > o.Strength
	}
	return w.GUID.Compare(o.GUID) < 0
}

// grants reports whether what w does to the instance counts.
func (i *instance) grants(w *Writer) bool {
	return i.owner == nil || i.owner == w || w.stronger(i.owner)
}

// hears reports whether a sample counts, by the strength with which it was written: that of
// its writer may be another one since.
func (i *instance) hears(s *Sample) bool {
	if s.Strength == s.Writer.Strength {
		return i.grants(s.Writer)
	}
	for o := range i.writers {
		if _, late := i.late[o]; !late && o != s.Writer && !s.Writer.strongerWith(s.Strength, o) {
			return false
		}
	}
	return true
}

// own makes w, which has written, the owner.
func (i *instance) own(w *Writer) {
	i.owner = w
	delete(i.late, w)
}

// elect finds the owner again: the strongest of those that write the instance and
// have done so since its deadline was missed; none if there is none, then it is
// the next one that writes.
func (i *instance) elect() {
	i.owner = nil
	for w := range i.writers {
		if _, late := i.late[w]; !late && i.grants(w) {
			i.owner = w
		}
	}
}

// disown follows that w does not write the instance any more.
func (i *instance) disown(w *Writer) {
	delete(i.late, w)
	if i.owner == w {
		i.elect()
	}
}

// ownerLate takes an instance from its owner, which missed the deadline. The
// next one that writes has it, until a stronger one writes: only writing shows
// who is in time.
func (c *Cache) ownerLate(key string) {
	i := c.byKey[key]
	if i == nil || i.owner == nil {
		return
	}
	i.owner, i.late = nil, maps.Clone(i.writers)
}

// overruled notes that a writer other than the owner writes an instance.
func (c *Cache) overruled(i *instance, s *Sample) bool {
	if !c.policies.Exclusive || s.Status == wire.StatusUnregister {
		return false
	}
	if c.followStrengths(i); i.hears(s) {
		return false
	}
	if !s.ofTheDead() { // they do not write it
		i.writers[s.Writer] = struct{}{}
		delete(i.late, s.Writer)
		if s.Strength != s.Writer.Strength { // as it is now it may be the owner
			i.elect()
		}
	}
	return true
}

// Strengthen gives a writer the strength that it had after so many changes of its policies,
// unless that of later ones is known.
func (c *Cache) Strengthen(w *Writer, strength int, change uint64) {
	if change < w.Change {
		return
	}
	w.Change = change
	if w.Strength == strength {
		return
	}
	w.Strength = strength
	c.strengths++
}

// followStrengths elects the owner again if a writer has another strength since: not in
// Strengthen, as samples may say other strengths much faster than all instances are walked.
func (c *Cache) followStrengths(i *instance) {
	if i.strengths != c.strengths && i.owner != nil {
		i.elect()
	}
	i.strengths = c.strengths
}

// owned gives an instance to a writer that was not overruled.
func (c *Cache) owned(i *instance, s *Sample) {
	if c.policies.Exclusive && s.Status != wire.StatusUnregister {
		i.own(s.Writer)
		if s.Strength != s.Writer.Strength { // as it is now it may not be the owner
			i.elect()
		}
	}
}

// written follows what an accepted sample means for the deadline and the owner
// of its instance.
func (c *Cache) written(i *instance, s *Sample, now time.Time) {
	c.owned(i, s)
	switch {
	case s.Status == wire.StatusData:
		c.deadlines.Met(s.Key, now)
	case i.state != Alive:
		c.deadlines.End(s.Key)
	}
}
