package gateway

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// read handles what a client sent.
func (s *shift) read(l *letter) {
	c := s.client(l)
	if c == nil {
		return
	}
	if !c.bucket.take(l.at) {
		s.g.count.refused.WithLabelValues(string(TooFast)).Inc()
		if l.at.Sub(c.warned) > time.Second {
			c.warned = l.at
			s.g.send(s.name, c.name, Answer{Outcome: Denied, Reason: TooFast, Detail: fmt.Sprintf("%d messages a second are read", rate)})
		}
		return
	}
	r, err := Request{}, error(nil)
	if l.tooLarge > 0 {
		err = refuse(TooLarge, "%d bytes, the most is %d", l.tooLarge, maxPayload)
	} else {
		r, err = DecodeRequest(l.payload)
	}
	if err == nil && l.retained && r.Op != Gone {
		err = refuse(Stale, "the message was retained: publish requests without the retain flag")
	}
	if err != nil {
		s.refuse(c, &r, err)
		return
	}
	s.g.count.requests.WithLabelValues(string(r.Op)).Inc()
	s.do(c, &r, l.at)
}

// client returns who sent a letter, or nil if no more are known than can be.
func (s *shift) client(l *letter) *client {
	if c := s.clients[l.client]; c != nil {
		return c
	}
	if s.g.clients.Load() >= maxClients || !s.strangers.take(l.at) {
		s.g.count.refused.WithLabelValues(string(TooMany)).Inc()
		if s.strangers.take(l.at) {
			s.g.send(s.name, l.client, Answer{Outcome: Denied, Reason: TooMany, Detail: "too many clients"})
		}
		return nil
	}
	c := &client{name: l.client, tickets: map[key]*ticket{}, bucket: newBucket(l.at)}
	s.clients[c.name] = c
	s.g.clients.Add(1)
	return c
}

// refuse answers a request that changes nothing. If it names one that lives, the
// answer says how that stands; the outcome of a refused message is denied.
func (s *shift) refuse(c *client, r *Request, err error) {
	a := Answer{ID: r.ID, Session: r.Session, Op: r.Op, Outcome: Denied, Reason: Malformed, Sent: r.Sent}
	var re *requestError
	if errors.As(err, &re) {
		a.Reason, a.Detail = re.reason, re.detail
	}
	s.g.count.refused.WithLabelValues(string(a.Reason)).Inc()
	if a.Reason == BadOp {
		a.Op = "" // a stranger's word
	}
	s.g.send(s.name, c.name, a)
}

func (s *shift) do(c *client, r *Request, at time.Time) {
	t := c.tickets[key{r.Session, r.ID}]
	switch r.Op {
	case Acquire:
		if t == nil {
			if t = s.open(c, r, at); t == nil {
				return
			}
		} else {
			t.renew(r, at)
		}
		s.reply(c, t, r, at)
	case Renew:
		if t != nil {
			t.renew(r, at)
		}
		s.reply(c, t, r, at)
	case Raise:
		s.raise(c, t, r, at)
	case Query:
		s.reply(c, t, r, at)
	case Release, Gone:
		s.leave(c, t, r, at)
	}
}

// open makes a ticket for a request that is not known.
func (s *shift) open(c *client, r *Request, at time.Time) *ticket {
	if c.live >= maxLive {
		s.refuse(c, r, refuse(TooMany, "%d requests of this client live already", c.live))
		return nil
	}
	if s.g.live.Load() >= maxRequests {
		s.refuse(c, r, refuse(TooMany, "the gateway has %d requests already: try again later", maxRequests))
		return nil
	}
	s.g.live.Add(1)
	s.arrivals++
	t := &ticket{
		key: key{r.Session, r.ID}, client: c, arrived: s.arrivals, resource: r.Resource, priority: r.Priority,
		try: r.Wait == 0, lease: r.Lease, outcome: Waiting, heard: at, sent: r.Sent,
	}
	if r.Wait > 0 {
		t.giveUpAt = at.Add(r.Wait)
	}
	c.tickets[t.key] = t
	c.live++
	s.live[t] = struct{}{}
	s.queue.join(t.resource)
	s.try(t, at)
	return t
}

// renew begins the lease again. A request that came late does not take back what a
// newer one gave.
func (t *ticket) renew(r *Request, at time.Time) {
	if t.live() && !t.gone && at.After(t.heard) {
		t.heard, t.sent = at, r.Sent
	}
}

// reply answers a request with how its ticket stands.
func (s *shift) reply(c *client, t *ticket, r *Request, at time.Time) {
	if t == nil {
		s.g.send(s.name, c.name, Answer{
			ID: r.ID, Session: r.Session, Op: r.Op, Outcome: Lost, Reason: Unknown, Sent: r.Sent,
			Detail: "no such request here: acquire again, under another id",
		})
		return
	}
	a := t.answer(at, r.Sent)
	a.Op = r.Op
	s.send(t, a)
}

// raise puts a waiting request further ahead.
func (s *shift) raise(c *client, t *ticket, r *Request, at time.Time) {
	switch {
	case t == nil || t.outcome != Waiting || r.Priority == t.priority:
	case r.Priority > t.priority:
		s.refuse(c, r, refuse(BadPriority, "priority %d is less important than %d: release the request and acquire again", r.Priority, t.priority))
		return
	default:
		t.priority = r.Priority
		s.try(t, at)
		if len(t.tries) > maxTries {
			t.tries[0].cancel()
			t.tries = t.tries[1:]
		}
	}
	s.reply(c, t, r, at)
}

// maxTries bounds how often one request stands in line while it is raised.
const maxTries = 4

// leave ends one request, or all of the session.
func (s *shift) leave(c *client, t *ticket, r *Request, at time.Time) {
	if r.ID != "" {
		if t == nil { // its acquire may be on the way still, and must not be served then
			t = &ticket{key: key{r.Session, r.ID}, client: c, resource: r.Resource, priority: r.Priority, outcome: Released, reason: Unknown}
			c.tickets[t.key] = t
			c.live++
			c.end(t, at)
		}
		s.leaveOne(t, r, at)
		return
	}
	var all []*ticket
	for t := range s.live {
		if t.client == c && t.session == r.Session {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *ticket) int { return int(int64(a.arrived) - int64(b.arrived)) })
	for _, t := range all {
		s.leaveOne(t, r, at)
	}
	if len(all) == 0 && r.Op == Release {
		s.g.send(s.name, c.name, Answer{Session: r.Session, Op: r.Op, Outcome: Released, Sent: r.Sent})
	}
}

// leaveOne releases at once what its client says it has left. A will is the broker's
// word: the client may still believe that it is inside, so its hold is kept for as
// long as it may.
func (s *shift) leaveOne(t *ticket, r *Request, at time.Time) {
	switch {
	case !t.live():
	case r.Op == Release:
		s.settle(t, Released, "")
	case t.outcome == Waiting || !t.told.After(at):
		s.settle(t, Lost, GoneAway)
	default:
		t.gone = true
		s.ring(t.wakeAt())
		return
	}
	a := t.answer(at, r.Sent)
	a.Op = r.Op
	s.send(t, a)
}
