package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"padme/internal/wait"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// active is a gateway's part in one lock topic while it has the role there. Everything in
// it belongs to the goroutine of serve.
type active struct {
	*topic
	role     *qosmutex.Hold
	lock     *qosmutex.Topic // nil while it is not open
	opening  bool
	settles  time.Duration          // how long nobody may know whether a resource is free
	brief    time.Duration          // holds that last no longer may still be to be confirmed
	parked   []*ticket              // to be put in line once it is
	shows    map[clientKey]question // to be answered once it is
	clients  map[string]*client
	live     map[*ticket]struct{}
	arrivals uint64
	lines    lines
	names    names
	queue    queue

	news      chan news   // of attempts
	opened    chan opened // of the lock topic
	deadlines deadlines
	alarm     *time.Timer
	rings     time.Time // when alarm does
	swept     time.Time
	excused   bool // somebody who waits was told why nobody is served

	ctx  context.Context // of attempts
	end  context.CancelFunc
	done chan struct{} // closed when news is not read any more
	wg   sync.WaitGroup
}

// opened is what became of opening the lock topic.
type opened struct {
	lock *qosmutex.Topic
	err  error
}

func newActive(ctx context.Context, t *topic, role *qosmutex.Hold) *active {
	s := &active{
		topic: t, role: role, settles: t.g.server.Settles(0), clients: map[string]*client{}, live: map[*ticket]struct{}{}, shows: map[clientKey]question{}, lines: lines{}, names: newNames(),
		news: make(chan news), opened: make(chan opened), done: make(chan struct{}),
		alarm: time.NewTimer(sweepEvery), swept: time.Now(),
	}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// serve answers until ctx ends or the role is lost. What is to be told then another gateway
// tells: by now it may have granted the same requests, and clients would take our word for
// their end.
func (s *active) serve(ctx context.Context) {
	s.ring(time.Now().Add(sweepEvery))
	s.reopen()
	lost := s.role.Context()
	for ctx.Err() == nil && s.role.Check() == nil && s.g.p.Err() == nil {
		select {
		case <-s.inbox.news:
			s.g.inTurn(s.readSome)
		case n := <-s.news:
			s.g.inTurn(func() { s.learnSome(n) })
		case o := <-s.opened:
			s.unpark(o)
		case <-s.alarm.C:
			s.look(time.Now())
		case <-lost.Done():
		case <-ctx.Done():
		case <-s.g.p.Done():
		}
	}
}

// readSome reads the next messages of clients.
func (s *active) readSome() {
	for _, m := range s.inbox.take() {
		if s.role.Check() != nil {
			return
		}
		s.read(&m)
	}
}

// learnSome handles what became of an attempt, and of others that are decided by now.
func (s *active) learnSome(n news) {
	all := []news{n}
	for more := true; more && len(all) < readAtOnce; {
		select {
		case n := <-s.news:
			all = append(all, n)
		default:
			more = false
		}
	}
	for _, n := range all {
		if s.learn(n) && s.role.Check() == nil {
			s.push(n.ticket)
		}
	}
}

// close ends the service: everybody is told, unless that is another gateway's to do, and what
// clients may believe they hold is kept until they cannot any more.
func (s *active) close() {
	close(s.done)
	var last time.Time
	for t := range s.live {
		if t.told.After(last) && t.hold != nil {
			last = t.told
		}
		if s.finish(t, jsonlock.Lost, jsonlock.Ended); s.role.Check() == nil {
			s.push(t)
		}
	}
	_ = s.role.Unlock()
	if s.g.p.Err() == nil {
		wait.Sleep(s.ctx, time.Until(last))
	}
	s.end()
	for t := range s.live {
		t.unlock()
		s.g.live.add(t.client.name, -1)
	}
	for _, c := range s.clients {
		s.g.remembered.Add(-int32(len(c.ended)))
	}
	s.wg.Wait()
	s.queue.wg.Wait()
}

// reopen waits for the lock topic to be open.
func (s *active) reopen() {
	if s.lock = nil; s.opening {
		return
	}
	s.opening = true
	s.wg.Go(func() {
		lock, err := s.g.server.Topic(s.ctx, s.name)
		select {
		case s.opened <- opened{lock, err}:
		case <-s.done:
		}
	})
}

// park keeps a ticket until the lock topic is open.
func (s *active) park(t *ticket) {
	if !t.parked {
		t.parked = true
		s.parked = append(s.parked, t)
	}
	s.reopen()
}

// unpark puts those that waited for the lock topic in line, in the order in which they came.
func (s *active) unpark(o opened) {
	if s.lock, s.opening = o.lock, false; o.lock != nil {
		ttl := time.Duration(o.lock.View().TTL * float64(time.Second))
		s.settles, s.brief = s.g.server.Settles(ttl), ttl/2
	}
	s.showKept(o.err)
	waiting := s.parked
	s.parked = nil
	slices.SortFunc(waiting, func(a, b *ticket) int { return cmp.Compare(a.arrived, b.arrived) })
	for some := range slices.Chunk(waiting, readAtOnce) {
		s.g.inTurn(func() { s.unparkSome(some, o.err) })
	}
}

func (s *active) unparkSome(some []*ticket, err error) {
	for _, t := range some {
		t.parked = false
		switch {
		case t.outcome != jsonlock.Waiting || s.role.Check() != nil:
			continue
		case err != nil:
			s.deny(t, err)
		default:
			s.ask(t)
		}
		if t.outcome != jsonlock.Waiting {
			s.push(t)
		}
	}
}

// finish makes a live ticket's outcome final, without releasing what it holds.
func (s *active) finish(t *ticket, outcome jsonlock.Outcome, reason jsonlock.Reason) {
	if t.outcome == jsonlock.Waiting {
		s.lines.leave(t)
	}
	t.outcome, t.reason = outcome, reason
	if t.attempt != nil {
		t.attempt.cancel()
	}
	s.deadlines.remove(t)
}

// settle makes a live ticket's outcome final and releases what it holds.
func (s *active) settle(t *ticket, outcome jsonlock.Outcome, reason jsonlock.Reason) {
	s.finish(t, outcome, reason)
	t.unlock()
	delete(s.live, t)
	s.topic.live.Store(int32(len(s.live)))
	s.g.live.add(t.client.name, -1)
	s.queue.leave(t.resource)
	s.remember(t, time.Now())
}

// remember keeps an ended ticket for messages that come late.
func (s *active) remember(t *ticket, now time.Time) {
	few := maxEnded
	if s.g.remembered.Load() > int32(s.g.limits.remembered()) {
		few = fewEnded
	}
	s.g.remembered.Add(int32(t.client.end(t, now, few)))
}

// deny ends a waiting ticket that cannot be served.
func (s *active) deny(t *ticket, err error) {
	reason := reasonOf(err)
	s.g.count.refused.WithLabelValues(string(reason)).Inc()
	t.detail = t.detailOf(err)
	s.settle(t, jsonlock.Denied, reason)
}

// ask makes a request of the gateway's participant for t. It may be decided when ask returns.
func (s *active) ask(t *ticket) {
	if s.lock == nil {
		s.park(t)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	a := &attempt{ticket: t, cancel: cancel}
	t.attempt = a
	lock, resource := s.lock, t.resource
	opts := []qosmutex.LockOption{qosmutex.WithPriority(t.priority), qosmutex.WithClient(t.client.shown()), qosmutex.WithHold(t.intended), qosmutex.WithNote(t.note())}
	if !t.within.IsZero() {
		opts = append(opts, qosmutex.WithDeadline(t.within))
	}
	t.warning = lock.Warning(resource)
	if t.try {
		s.wg.Go(func() {
			hold, err := lock.TryLock(ctx, resource, opts...)
			s.tell(news{attempt: a, hold: hold, err: err})
		})
		return
	}
	r, err := lock.Ask(resource, opts...)
	switch {
	case err != nil:
		s.learn(news{attempt: a, err: err})
	case r.Decided():
		hold, err := r.Wait(ctx)
		s.learn(news{attempt: a, hold: hold, err: err})
	default:
		a.request = r
		s.wg.Go(func() {
			hold, err := r.Wait(ctx)
			s.tell(news{attempt: a, hold: hold, err: err})
		})
	}
}

// tell hands news over, unless nobody listens any more.
func (s *active) tell(n news) {
	select {
	case s.news <- n:
	case <-s.done:
		if n.hold != nil {
			_ = n.hold.Unlock()
		}
	}
}

// learn handles what became of an attempt, and reports whether the outcome has changed.
func (s *active) learn(n news) (changed bool) {
	t := n.ticket
	if !n.over {
		n.cancel()
	}
	switch {
	case n.over:
		if t.outcome != jsonlock.Granted || t.hold != n.hold {
			return false
		}
		if s.mayLoseRole() {
			s.wg.Go(func() {
				wait.Sleep(s.ctx, s.lasts/8)
				s.tell(n)
			})
			return false
		}
		s.settle(t, jsonlock.Lost, "")
	case n.hold != nil && t.outcome == jsonlock.Waiting:
		s.grant(t, n)
	case n.hold != nil: // it came too late, or twice
		_ = n.hold.Unlock()
		return false
	case t.outcome != jsonlock.Waiting || t.attempt != n.attempt:
		return false
	case errors.Is(n.err, qosmutex.ErrClosed): // it is about to be opened again
		t.attempt = nil
		s.park(t)
		return false
	default:
		s.deny(t, n.err)
	}
	return true
}

// mayLoseRole reports whether the gateway was not heard for so long that it may be about to lose its role.
// Where it has lost a hold for the same reason, another gateway tells that: by the time that our word
// arrives, it may have granted the same request.
func (s *active) mayLoseRole() bool { return s.role.Remaining() < s.lasts/2 }

func (s *active) grant(t *ticket, n news) {
	t.attempt = nil
	s.lines.leave(t)
	s.queue.leave(t.resource)
	t.outcome, t.hold, t.fence, t.resource, t.priority = jsonlock.Granted, n.hold, n.hold.Fence(), n.hold.Resource(), n.hold.Priority()
	s.queue.join(t.resource)
	s.follow(t, n)
	if left := n.hold.Remaining(); left <= s.brief {
		t.again = time.Now().Add(left / 4)
	}
}

// follow has the end of a ticket's hold told.
func (s *active) follow(t *ticket, n news) {
	s.wg.Add(1)
	stop := context.AfterFunc(n.hold.Context(), func() {
		defer s.wg.Done()
		select {
		case s.news <- news{attempt: n.attempt, hold: n.hold, over: true}:
		case <-s.done:
		}
	})
	t.unfollow = func() {
		if stop() {
			s.wg.Done()
		}
	}
}

// push tells a client unasked how its request stands.
func (s *active) push(t *ticket) {
	a := t.answer("", t.heard, t.sent)
	if !t.warned {
		a.Warning = t.warn()
	}
	s.send(t, a)
}

func (s *active) send(t *ticket, a jsonlock.Answer) {
	if t.outcome == jsonlock.Waiting {
		a.Position = max(s.lines.position(t), s.queue.position(s.g.p.ID(), t))
		if a.Detail = s.trouble(); a.Detail != "" {
			a.Reason = jsonlock.NotReady
			s.excused = true
			s.ring(time.Now().Add(againAfter))
		}
	}
	if t.live() {
		s.schedule(t)
	}
	s.g.send(s.name, t.client.name, a)
}
