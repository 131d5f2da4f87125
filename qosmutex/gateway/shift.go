package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"padme/qosmutex"
)

// shift is a desk at work. Everything in it belongs to the goroutine of serve.
type shift struct {
	*desk
	role      *qosmutex.Hold
	clients   map[string]*client
	live      map[*ticket]struct{}
	arrivals  uint64
	strangers bucket // of clients that are not known yet
	queue     queue

	news  chan news // of attempts
	alarm *time.Timer
	rings time.Time // when alarm does

	ctx  context.Context // of attempts
	end  context.CancelFunc
	done chan struct{} // closed when news is not read any more
	wg   sync.WaitGroup
}

func (s *shift) serve(ctx context.Context) {
	s.ring(time.Now().Add(time.Minute))
	lost := s.role.Context()
	for ctx.Err() == nil && lost.Err() == nil && s.g.p.Err() == nil {
		select {
		case l := <-s.letters:
			if s.role.Check() != nil {
				return // somebody else may answer it
			}
			s.read(&l)
		case n := <-s.news:
			s.learn(n)
		case <-s.alarm.C:
			s.look(time.Now())
		case <-lost.Done():
		case <-ctx.Done():
		case <-s.g.p.Done():
		}
	}
}

// close ends the shift: everybody is told, and what clients may believe they hold is
// kept until they cannot any more.
func (s *shift) close() {
	close(s.done)
	_ = s.role.Unlock(s.ctx)
	var last time.Time
	for t := range s.live {
		if t.told.After(last) && t.hold != nil {
			last = t.told
		}
		s.finish(t, Lost, Ended)
		s.push(t)
	}
	if s.g.p.Err() == nil {
		pause(s.ctx, time.Until(last))
	}
	s.end()
	for t := range s.live {
		t.unlock()
		s.g.live.Add(-1)
	}
	s.wg.Wait()
	s.queue.wg.Wait()
}

// finish makes a live ticket's outcome final, without releasing what it holds.
func (s *shift) finish(t *ticket, outcome Outcome, reason Reason) {
	t.outcome, t.reason = outcome, reason
	for _, a := range t.tries {
		if t.hold == nil {
			a.cancel()
		}
	}
}

// settle makes a live ticket's outcome final and releases what it holds.
func (s *shift) settle(t *ticket, outcome Outcome, reason Reason) {
	s.finish(t, outcome, reason)
	t.unlock()
	delete(s.live, t)
	s.g.live.Add(-1)
	s.queue.leave(t.resource)
	t.client.end(t, time.Now())
}

func (t *ticket) unlock() {
	if t.hold != nil {
		_ = t.hold.Unlock(context.Background())
		t.hold = nil
	}
}

// try puts a request for t into line and lets earlier ones of it run out.
func (s *shift) try(t *ticket, now time.Time) {
	for _, a := range t.tries {
		a.retire = now.Add(raiseOverlap)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	a := &attempt{ticket: t, cancel: cancel}
	t.tries = append(t.tries, a)
	resource, priority, try := t.resource, t.priority, t.try
	s.wg.Go(func() {
		defer cancel()
		hold, err := s.member.lock(ctx, resource, try, qosmutex.WithPriority(priority))
		if !s.tell(news{attempt: a, hold: hold, err: err}) {
			if hold != nil {
				_ = hold.Unlock(context.Background())
			}
			return
		}
		if hold != nil {
			<-hold.Context().Done()
			s.tell(news{attempt: a, hold: hold, over: true})
		}
	})
}

// tell reports false once nobody listens.
func (s *shift) tell(n news) bool {
	select {
	case s.news <- n:
		return true
	case <-s.done:
		return false
	}
}

// learn handles what became of an attempt.
func (s *shift) learn(n news) {
	t := n.ticket
	switch {
	case n.over:
		if t.outcome == Granted && t.hold == n.hold {
			s.settle(t, Lost, "")
			s.push(t)
		}
	case n.hold != nil && t.outcome == Waiting:
		s.grant(t, n)
	case n.hold != nil: // it came too late, or twice
		_ = n.hold.Unlock(context.Background())
	case t.outcome == Waiting && len(t.tries) > 0 && t.tries[len(t.tries)-1] == n.attempt:
		reason := reasonOf(n.err)
		s.g.count.refused.WithLabelValues(string(reason)).Inc()
		t.detail = n.err.Error()
		s.settle(t, Denied, reason)
		s.push(t)
	}
}

func (s *shift) grant(t *ticket, n news) {
	for _, a := range t.tries {
		if a != n.attempt {
			a.cancel()
		}
	}
	t.tries = nil
	s.queue.leave(t.resource)
	t.outcome, t.hold, t.fence, t.resource, t.priority = Granted, n.hold, n.hold.Fence(), n.hold.Resource(), n.hold.Priority()
	s.queue.join(t.resource)
	s.push(t)
}

// look settles what is over by now and sets the alarm for what is next.
func (s *shift) look(now time.Time) {
	next := now.Add(time.Minute)
	for t := range s.live {
		for len(t.tries) > 1 && !t.tries[0].retire.After(now) {
			t.tries[0].cancel()
			t.tries = t.tries[1:]
		}
		if t.ends().After(now) {
			if at := t.wakeAt(); at.Before(next) {
				next = at
			}
			continue
		}
		switch {
		case t.outcome == Waiting && t.heard.Add(t.lease).After(now):
			s.g.count.refused.WithLabelValues(string(WaitOver)).Inc()
			s.settle(t, Denied, WaitOver)
		case t.gone:
			s.settle(t, Lost, GoneAway)
		default:
			s.settle(t, Expired, "")
		}
		s.push(t)
	}
	for name, c := range s.clients {
		c.forget(now, 0)
		if len(c.tickets) == 0 && now.Sub(c.bucket.at) > burst/rate*time.Second {
			delete(s.clients, name)
			s.g.clients.Add(-1)
		}
	}
	s.rings = time.Time{}
	s.ring(next)
}

// ring sets the alarm to at, unless it rings before.
func (s *shift) ring(at time.Time) {
	if s.rings.IsZero() || at.Before(s.rings) {
		s.rings = at
		s.alarm.Reset(time.Until(at))
	}
}

// push tells a client unasked how its request stands.
func (s *shift) push(t *ticket) {
	s.send(t, t.answer(t.heard, t.sent))
}

func (s *shift) send(t *ticket, a Answer) {
	if t.outcome == Waiting {
		a.Position = s.position(t)
	}
	if t.live() {
		s.ring(t.wakeAt())
	}
	s.g.send(s.name, t.client.name, a)
}

// position says which of those that wait for its resource t is, as far as is known.
func (s *shift) position(t *ticket) int {
	rank, same := 1, 1 // among our own; among our own of its priority
	for o := range s.live {
		if o == t || o.outcome != Waiting || o.resource != t.resource {
			continue
		}
		if o.priority < t.priority || o.priority == t.priority && o.arrived < t.arrived {
			rank++
		}
		if o.priority == t.priority && o.arrived < t.arrived {
			same++
		}
	}
	return max(rank, s.queue.position(s.g.p.ID(), t, same))
}

// queue follows what the root publishes of resources that are asked for.
type queue struct {
	mu     sync.Mutex
	asked  map[string]int // live tickets by resource
	latest map[string][]qosmutex.Waiter
	wg     sync.WaitGroup
}

// watch reads states until ctx ends.
func (q *queue) watch(ctx context.Context, d *desk) {
	q.asked, q.latest = map[string]int{}, map[string][]qosmutex.Waiter{}
	q.wg.Go(func() {
		for ctx.Err() == nil && d.g.p.Err() == nil {
			for st, err := range qosmutex.WatchStates(ctx, d.g.p, d.name) {
				if err == nil {
					q.note(st.Resource, st.Queue)
				} else if !errors.Is(err, qosmutex.ErrMissed) {
					break
				}
			}
			pause(ctx, againAfter)
		}
	})
}

// note keeps the queue of a resource that somebody asks for: the names of others are
// without bound.
func (q *queue) note(resource string, waiting []qosmutex.Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked[resource] > 0 {
		q.latest[resource] = waiting
	}
}

func (q *queue) join(resource string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked[resource]++
}

func (q *queue) leave(resource string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked[resource]--; q.asked[resource] <= 0 {
		delete(q.asked, resource)
		delete(q.latest, resource)
	}
}

// position finds the participant's request number same of t's priority; 0: it is not
// among those that the root has named.
func (q *queue) position(participant string, t *ticket, same int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.latest[t.resource] {
		if w.Participant == participant && w.Priority == t.priority {
			if same--; same == 0 {
				return i + 1
			}
		}
	}
	return 0
}
