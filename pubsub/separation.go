package pubsub

import "time"

// separation is TIME_BASED_FILTER: of each instance a reader gives at most one
// sample in a period. Reliable readers give the last one when the period is over.
// The zero value lets everything through.
type separation struct {
	period  time.Duration
	last    bool // what came too soon is given later
	waiting map[*instance]*inSample
	noRoom  bool          // for one whose time is over
	wake    chan struct{} // of separate
}

func newSeparation(q *QoS) separation {
	return separation{period: q.TimeBasedFilter, last: q.Reliability == Reliable, waiting: map[*instance]*inSample{}, wake: make(chan struct{}, 1)}
}

// tooSoon reports whether a sample must not be given now, and if so keeps it.
func (c *instances) tooSoon(i *instance, s *inSample, was InstanceState, now time.Time) bool {
	p := &c.separation
	if p.period == 0 {
		return false
	}
	if s.status != statusData || i.state != was {
		if s.status != statusUnregister { // the last sample of a writer that has gone still counts
			delete(p.waiting, i)
		}
		return false
	}
	if now.Sub(i.given) >= p.period {
		delete(p.waiting, i)
		return false
	}
	if p.last {
		if len(p.waiting) == 0 {
			defer signal(p.wake)
		}
		held := *s
		p.waiting[i] = &held
	}
	return true
}

// release gives what has waited for its period, and returns when the next is
// due; zero for never.
func (c *instances) release(now time.Time) (next time.Time) {
	p := &c.separation
	p.noRoom = false
	for i, s := range p.waiting {
		if s.mortal.over(now) {
			delete(p.waiting, i)
			continue
		}
		due := i.given.Add(p.period)
		if !due.After(now) && (c.qos.History != KeepAll || c.live < c.qos.MaxSamples) {
			delete(p.waiting, i)
			if c.add(i, *s, now) == nil {
				continue
			}
			p.waiting[i] = s
		}
		if !due.After(now) {
			p.noRoom = true
			continue
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// roomy follows a sample that has left the cache.
func (p *separation) roomy() {
	if p.noRoom {
		p.noRoom = false
		signal(p.wake)
	}
}

// separate calls release when something is due, until ended or over.
func (r *receiver) separate(ended, over <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.cache.separation.wake:
		case <-timer.C:
		case <-ended:
			return
		case <-over:
			return
		}
		r.mu.Lock()
		now := time.Now()
		next := r.cache.release(now)
		r.arm(r.cache.due())
		r.mu.Unlock()
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(next.Sub(now), time.Millisecond))
		}
	}
}
