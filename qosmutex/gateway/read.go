package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/qosmutex/jsonlock"
)

// read handles what a client sent.
func (s *active) read(m *message) {
	c := s.client(m)
	if c == nil {
		return
	}
	r, err := m.request()
	if m.ahead && !s.overtakes(c, &r, err) {
		m.ahead, m.again = false, true
		if limit := s.inbox.put(*m); limit != noLimit { // it is repeated
			s.g.beyond(limit, s.name, c.name, m.at)
		}
		return
	}
	if !c.bucket.take(m.at) && !s.urgent(c, &r, m.at) {
		s.g.count.refused.WithLabelValues(string(jsonlock.TooFast)).Inc()
		s.g.beyond(limitClientRate, s.name, c.name, m.at)
		if m.at.Sub(c.warned) > time.Second {
			c.warned = m.at
			s.g.send(s.name, c.name, jsonlock.Answer{Outcome: jsonlock.Denied, Reason: jsonlock.TooFast, Detail: fmt.Sprintf("%d messages a second are read", s.g.limits.ClientRate)})
		}
		return
	}
	if err != nil {
		s.refuse(c, &r, err)
		return
	}
	s.g.count.requests.WithLabelValues(string(r.Op)).Inc()
	s.do(c, &r, m.at)
}

// overtakes reports whether a message does no harm if it is read before older ones of its
// client: the request that a renewal names may be among them.
func (s *active) overtakes(c *client, r *jsonlock.Request, err error) bool {
	switch {
	case err != nil || r.ID == "":
		return false
	case r.Op == jsonlock.Renew:
		return c.tickets[key{r.Session, r.ID}] != nil
	}
	return r.Op == jsonlock.Release
}

// request is what a message says.
func (m *message) request() (r jsonlock.Request, err error) {
	switch {
	case m.decoded != nil:
		r = *m.decoded
	case m.tooLarge > 0:
		return r, jsonlock.Refuse(jsonlock.TooLarge, "%d bytes, the most is %d", m.tooLarge, jsonlock.MaxRequest)
	default:
		r, err = jsonlock.DecodeRequest(m.payload)
	}
	if err == nil && m.retained && r.Op != jsonlock.Gone {
		err = jsonlock.Refuse(jsonlock.Stale, "the message was retained: publish requests without the retain flag")
	}
	return r, err
}

// renewedOften is how often a hold may be renewed at least.
const renewedOften = 100 * time.Millisecond

// urgent reports whether others pay for it if a message of a client that says too much is not
// read: a release lets them in, and without its renewal a hold is lost.
func (s *active) urgent(c *client, r *jsonlock.Request, at time.Time) bool {
	t := c.tickets[key{r.Session, r.ID}]
	switch {
	case t == nil || !t.live():
		return false
	case r.Op == jsonlock.Renew:
		return t.outcome == jsonlock.Granted && at.Sub(t.heard) >= renewedOften
	}
	return r.Op == jsonlock.Release
}

// client returns who sent a message, or nil if no more are known than can be.
func (s *active) client(m *message) *client {
	if c := s.clients[m.client]; c != nil {
		return c
	}
	most := s.g.limits.clients()
	if int(s.g.clients.Load()) >= most {
		s.sweep(m.at, sweepSoon)
	}
	if int(s.g.clients.Load()) >= most {
		s.g.beyond(limitClients, s.name, m.client, m.at)
		s.g.turnAway(s.name, m, jsonlock.TooMany, "the server is busy: it has %d clients already; ask again in a while", most)
		return nil
	}
	return s.know(m.client, m.at)
}

// know makes a client that is not known.
func (s *active) know(name string, at time.Time) *client {
	c := &client{name: name, tickets: map[key]*ticket{}, bucket: newBucket(at, float64(s.g.limits.ClientRate))}
	s.clients[c.name] = c
	s.g.know(c.name, s.topic, true)
	return c
}

// add has a new ticket live.
func (s *active) add(t *ticket) {
	s.g.live.add(t.client.name, 1)
	t.client.tickets[t.key] = t
	t.client.live++
	s.live[t] = struct{}{}
	s.topic.live.Store(int32(len(s.live)))
	s.queue.join(t.resource)
	s.names.use(t.resource)
}

// refuse answers a request that changes nothing. If it names one that lives, the
// answer says how that stands; the outcome of a refused message is denied.
func (s *active) refuse(c *client, r *jsonlock.Request, err error) {
	a := jsonlock.Answer{ID: r.ID, Session: r.Session, Op: r.Op, Outcome: jsonlock.Denied, Reason: jsonlock.Malformed, Sent: r.Sent}
	var re *jsonlock.Refusal
	if errors.As(err, &re) {
		a.Reason, a.Detail = re.Reason, re.Detail
	}
	s.g.count.refused.WithLabelValues(string(a.Reason)).Inc()
	if a.Reason == jsonlock.BadOp {
		a.Op = "" // a stranger's word
	}
	s.g.send(s.name, c.name, a)
}

func (s *active) do(c *client, r *jsonlock.Request, at time.Time) {
	t := c.tickets[key{r.Session, r.ID}]
	switch r.Op {
	case jsonlock.Acquire:
		if t == nil {
			if t = s.open(c, r, at); t == nil {
				return
			}
		} else {
			t.renew(r, at)
		}
		s.reply(c, t, r, at)
	case jsonlock.Renew:
		if t != nil {
			t.renew(r, at)
		}
		s.reply(c, t, r, at)
	case jsonlock.Raise:
		s.raise(c, t, r, at)
	case jsonlock.Query:
		s.reply(c, t, r, at)
	case jsonlock.Show:
		s.show(c, r, at)
	case jsonlock.Release, jsonlock.Gone:
		s.leave(c, t, r, at)
	}
}

// open makes a ticket for a request that is not known.
func (s *active) open(c *client, r *jsonlock.Request, at time.Time) *ticket {
	err := s.mayOpen(c, at)
	if err == nil {
		err = s.mayName(c, r.Resource, at)
	}
	if err != nil {
		s.refuse(c, r, err)
		return nil
	}
	s.arrivals++
	t := &ticket{
		key: key{r.Session, r.ID}, client: c, arrived: s.arrivals, resource: r.Resource, priority: r.Priority,
		try: r.Wait == 0, lease: r.Lease, renews: r.Renews, intended: r.Hold, outcome: jsonlock.Waiting, heard: at, sent: r.Sent,
	}
	switch {
	case t.try:
		t.giveUpAt = at.Add(s.settles)
	case r.Wait > 0:
		t.giveUpAt = at.Add(r.Wait)
	}
	if r.Within > 0 {
		t.within = at.Add(r.Within)
	}
	s.add(t)
	s.lines.join(t)
	s.ask(t)
	return t
}

// renew begins the lease again, also that of a hold whose client had lost its connection. A
// request that came late does not take back what a newer one gave.
func (t *ticket) renew(r *jsonlock.Request, at time.Time) {
	if t.live() && !t.final && at.After(t.heard) {
		t.heard, t.sent, t.gone = at, r.Sent, false
	}
}

// reply answers a request with how its ticket stands.
func (s *active) reply(c *client, t *ticket, r *jsonlock.Request, at time.Time) {
	if t == nil {
		if !s.g.rates.takeUnknown(c.name, at) {
			s.g.beyond(limitUnknown, s.name, c.name, at)
			return
		}
		s.g.send(s.name, c.name, jsonlock.Answer{
			ID: r.ID, Session: r.Session, Op: r.Op, Outcome: jsonlock.Lost, Reason: jsonlock.Unknown, Sent: r.Sent,
			Detail: "no such request here: acquire again, under another id",
		})
		return
	}
	a := t.answer(r.Op, at, r.Sent)
	if r.Op == jsonlock.Acquire {
		a.Warning = t.warn()
	}
	s.send(t, a)
}

// raise puts a waiting request further ahead.
func (s *active) raise(c *client, t *ticket, r *jsonlock.Request, at time.Time) {
	switch {
	case t == nil || t.outcome != jsonlock.Waiting || r.Priority == t.priority || t.try: // a try is decided where it stands
	case r.Priority > t.priority:
		s.refuse(c, r, jsonlock.Refuse(jsonlock.BadPriority, "priority %d is less important than %d: release the request and acquire again", r.Priority, t.priority))
		return
	default:
		s.lines.leave(t)
		t.priority = r.Priority
		s.lines.join(t)
		if t.attempt != nil && t.attempt.request != nil {
			_ = t.attempt.request.SetPriority(t.priority) // it is more important
		}
	}
	s.reply(c, t, r, at)
}

// leave ends one request, or all of the session.
func (s *active) leave(c *client, t *ticket, r *jsonlock.Request, at time.Time) {
	if r.ID != "" {
		if t == nil { // its acquire may be on the way still, and must not be served then
			t = &ticket{key: key{r.Session, r.ID}, client: c, resource: r.Resource, priority: r.Priority, outcome: jsonlock.Released, reason: jsonlock.Unknown}
			c.tickets[t.key] = t
			c.live++
			s.remember(t, at)
		}
		s.leaveOne(t, r, at)
		return
	}
	var all []*ticket
	for k, t := range c.tickets {
		if renewed := r.Op == jsonlock.Gone && t.heard.After(at); k.session == r.Session && t.live() && !renewed {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *ticket) int { return cmp.Compare(a.arrived, b.arrived) })
	for _, t := range all {
		s.leaveOne(t, r, at)
	}
	if len(all) == 0 && r.Op == jsonlock.Release {
		s.g.send(s.name, c.name, jsonlock.Answer{Session: r.Session, Op: r.Op, Outcome: jsonlock.Released, Sent: r.Sent})
	}
}

// leaveOne releases at once what its client says it has left. A will is the broker's
// word: the client may still believe that it is inside, so its hold is kept for as
// long as it may, and goes on if the client renews it. One that an operator ends, by its
// id, does not.
func (s *active) leaveOne(t *ticket, r *jsonlock.Request, at time.Time) {
	switch {
	case !t.live():
	case r.Op == jsonlock.Release:
		s.settle(t, jsonlock.Released, "")
	case t.outcome == jsonlock.Waiting || !t.told.After(at):
		s.settle(t, jsonlock.Lost, jsonlock.GoneAway)
	default:
		t.gone, t.final = true, t.final || r.ID != ""
		s.schedule(t)
		return
	}
	a := t.answer(r.Op, at, r.Sent)
	s.send(t, a)
}
