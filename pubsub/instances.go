package pubsub

import (
	"slices"
	"time"
)

// InstanceState is what a reader knows about an instance.
type InstanceState uint8

// States of an instance.
const (
	Alive     InstanceState = iota // a live writer wrote it last
	Disposed                       // a writer disposed it
	NoWriters                      // everyone who wrote it has unregistered it, was closed or died
)

func (s InstanceState) String() string {
	return [...]string{"alive", "disposed", "no-writers"}[s]
}

// inSample is a received sample in its encoded form.
type inSample struct {
	key    string // decoded key level
	writer *remoteWriter
	seq    uint64
	nanos  uint64
	status status
	body   []byte
	mortal *mortal // nil without lifespan

	previous uint64 // see envelopeOptions
	orphan   bool   // its writer is gone; see transient.go
}

// held is what waits in a reader for its application.
type held struct {
	inSample
	info SampleInfo
	gone bool // replaced by a newer one of its instance
}

type instance struct {
	state               InstanceState
	writers             map[*remoteWriter]struct{} // who wrote it and may write again
	disposed, noWriters int                        // times it came back from that state
	held                []*held                    // samples that wait, oldest first

	owner *remoteWriter              // with exclusive ownership; nil: the next to write it
	late  map[*remoteWriter]struct{} // have not written since an owner missed the deadline

	newest moment    // of destination order by source time
	given  time.Time // when its last sample was; of a time-based filter
}

// instances is a reader's cache.
type instances struct {
	qos   QoS
	byKey map[string]*instance
	queue []*held // in order of arrival, with gone ones between
	live  int     // of queue, not gone
	wake  chan struct{}

	deadlines deadlines
	mortals   mortals

	separation separation
}

// accept takes a sample in. It reports false when a keep-all cache is full: the
// sample must come again; and an error when it is given up.
func (c *instances) accept(s inSample, now time.Time) (bool, error) {
	i := c.byKey[s.key]
	if i != nil && c.overruled(i, &s) {
		return true, nil
	}
	if c.qos.History == KeepAll && c.live >= c.qos.MaxSamples {
		return false, errSamples
	}
	if i == nil {
		if len(c.byKey) >= c.qos.MaxInstances && !c.purge() {
			return true, errInstances
		}
		i = &instance{state: NoWriters, writers: map[*remoteWriter]struct{}{}}
		if s.status == statusData && !s.orphan {
			i.state = Alive
		}
		c.byKey[s.key] = i
	}
	if c.late(i, &s) {
		if !s.orphan { // it says who writes the instance, if not what
			i.writers[s.writer] = struct{}{}
			c.owned(i, &s)
		}
		return true, errLate
	}
	was := i.state
	switch s.status {
	case statusData:
		if s.orphan {
			break
		}
		switch i.state {
		case Disposed:
			i.disposed++
		case NoWriters:
			i.noWriters++
		}
		i.state = Alive
		i.writers[s.writer] = struct{}{}
	case statusDispose:
		i.state = Disposed
		i.writers[s.writer] = struct{}{}
	case statusUnregister:
		c.leave(i, s.writer)
	}
	if !s.orphan { // nobody keeps its instance alive
		c.written(i, &s, now)
	}
	if c.tooSoon(i, &s, was, now) {
		return true, nil
	}
	if s.status == statusData || i.state != was {
		return true, c.add(i, s, now)
	}
	return true, nil
}

// leave takes a writer off an instance.
func (c *instances) leave(i *instance, w *remoteWriter) {
	delete(i.writers, w)
	i.disown(w)
	if len(i.writers) == 0 && i.state == Alive {
		i.state = NoWriters
	}
}

func (c *instances) add(i *instance, s inSample, now time.Time) error {
	if c.qos.History == KeepLast {
		for len(i.held) >= c.qos.Depth {
			c.drop(i, 0)
		}
	}
	if c.live >= c.qos.MaxSamples {
		return errSamples
	}
	if c.separation.period > 0 && s.status == statusData {
		i.given = now
	}
	h := &held{inSample: s, info: SampleInfo{
		Valid: s.status == statusData, State: i.state, Key: s.key, Writer: s.writer.guid, Sequence: s.seq,
		SourceTime: time.Unix(0, int64(s.nanos)), ReceiveTime: now,
		DisposedGeneration: i.disposed, NoWritersGeneration: i.noWriters,
	}}
	i.held = append(i.held, h)
	c.queue = append(c.queue, h)
	c.live++
	c.keepMortal(h)
	signal(c.wake)
	return nil
}

// drop gives up sample n of i, oldest first.
func (c *instances) drop(i *instance, n int) {
	i.held[n].gone = true
	c.forgetMortal(i.held[n])
	if n == 0 {
		i.held = i.held[1:]
	} else {
		i.held = slices.Delete(i.held, n, n+1)
	}
	c.live--
	c.separation.roomy()
	if len(c.queue) > 2*c.live+64 {
		kept := c.queue[:0:0]
		for _, h := range c.queue {
			if !h.gone {
				kept = append(kept, h)
			}
		}
		c.queue = kept
	}
}

// take removes the oldest sample.
func (c *instances) take() *held {
	for len(c.queue) > 0 {
		h := c.queue[0]
		c.queue = c.queue[1:]
		if !h.gone {
			i := c.byKey[h.key]
			i.held = i.held[1:]
			c.live--
			c.separation.roomy()
			c.forgetMortal(h)
			return h
		}
	}
	return nil
}

// writerGone takes a writer off all instances; those left without one tell so.
func (c *instances) writerGone(w *remoteWriter, now time.Time) {
	for key, i := range c.byKey {
		if _, wrote := i.writers[w]; !wrote {
			continue
		}
		was := i.state
		if c.leave(i, w); i.state != was {
			c.deadlines.end(key)
			// Without room the state still shows in the next sample.
			_ = c.add(i, inSample{key: key, writer: w, seq: w.next - 1, status: statusUnregister, nanos: uint64(now.UnixNano())}, now)
		}
	}
}

// purge forgets an instance which is over and read; it reports whether there was
// one.
func (c *instances) purge() bool {
	for key, i := range c.byKey {
		if i.state != Alive && len(i.held) == 0 && c.separation.waiting[i] == nil {
			delete(c.byKey, key)
			return true
		}
	}
	return false
}
