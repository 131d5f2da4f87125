package pubsub

import (
	"cmp"
	"fmt"
	"maps"
	"time"
)

// Exclusive ownership is arbitrated by each reader for itself, from what it has
// heard so far: two readers may disagree for a while. It is not a lock.

// compare orders GUIDs; all participants find the same order.
func (g GUID) compare(o GUID) int {
	return cmp.Or(cmp.Compare(g.Participant, o.Participant), cmp.Compare(g.Incarnation, o.Incarnation), cmp.Compare(g.Endpoint, o.Endpoint))
}

// stronger reports whether w comes before o; there are no ties.
func (w *remoteWriter) stronger(o *remoteWriter) bool {
	if w.strength != o.strength {
		return w.strength > o.strength
	}
	return w.guid.compare(o.guid) < 0
}

// grants reports whether what w does to the instance counts.
func (i *instance) grants(w *remoteWriter) bool {
	return i.owner == nil || i.owner == w || w.stronger(i.owner)
}

// own makes w, which has written, the owner.
func (i *instance) own(w *remoteWriter) {
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
func (i *instance) disown(w *remoteWriter) {
	delete(i.late, w)
	if i.owner == w {
		i.elect()
	}
}

// ownerLate takes an instance from its owner, which missed the deadline. The
// next one that writes has it, until a stronger one writes: only writing shows
// who is in time.
func (c *instances) ownerLate(key string) {
	i := c.byKey[key]
	if i == nil || i.owner == nil {
		return
	}
	i.owner, i.late = nil, maps.Clone(i.writers)
}

// overruled notes that a writer other than the owner writes an instance.
func (c *instances) overruled(i *instance, s *inSample) bool {
	if !c.qos.Exclusive || s.status == statusUnregister || i.grants(s.writer) {
		return false
	}
	if !s.orphan { // the dead do not write it
		i.writers[s.writer] = struct{}{}
		delete(i.late, s.writer)
	}
	return true
}

// restrengthened follows a writer whose strength has changed.
func (r *receiver) restrengthened(g GUID, strength int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[writerLevels(g)]
	if w == nil || w.guid != g || w.strength == strength {
		return
	}
	w.strength = strength
	if !r.qos.Exclusive {
		return
	}
	for _, i := range r.cache.byKey {
		if _, writes := i.writers[w]; writes && i.owner != nil {
			i.elect()
		}
	}
}

// refresh follows a matched endpoint that was announced again.
func (l *localEndpoint) refresh(e *endpoint) {
	if r, ok := l.core.(*receiver); ok {
		r.restrengthened(e.guid, e.QoS.Strength)
	}
}

// SetStrength changes the strength of an exclusive writer. Readers follow as
// soon as they hear of it, offline after the reconnection. Errors: ErrInvalid if
// the writer is not Exclusive, ErrClosed.
func (w *Writer[T]) SetStrength(strength int) error {
	x := &w.topic.p.exchange
	if !w.qos.Exclusive {
		return fmt.Errorf("%w: the writer of topic %q is not Exclusive: strength has no meaning", ErrInvalid, w.topic.name)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.local[w.ep.name] != w.ep {
		return x.err("writer", w.topic.name)
	}
	w.ep.json.QoS.Strength = strength
	x.announce(w.ep)
	return nil
}

// owned gives an instance to a writer that was not overruled.
func (c *instances) owned(i *instance, s *inSample) {
	if c.qos.Exclusive && s.status != statusUnregister {
		i.own(s.writer)
	}
}

// written follows what an accepted sample means for the deadline and the owner
// of its instance.
func (c *instances) written(i *instance, s *inSample, now time.Time) {
	c.owned(i, s)
	switch {
	case s.status == statusData:
		c.deadlines.met(s.key, now)
	case i.state != Alive:
		c.deadlines.end(s.key)
	}
}
