package gateway

import (
	"context"
	"encoding/json"
	"time"

	"padme/internal/wait"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// A gateway's process that is killed and started again beside its register goes on with
// the holds of its clients, and with its roles ([qosmutex.Resume]), so a client that
// renews finds what it holds.

// noted is what is noted with a client's hold: whose it is.
type noted struct {
	Client  string        `json:"client"`
	Session string        `json:"session,omitempty"`
	ID      string        `json:"id"`
	Lease   time.Duration `json:"lease"`
	Renews  bool          `json:"renews,omitempty"`
}

// note is what makes the ticket again; empty if the client has a name that is too long for it.
func (t *ticket) note() []byte {
	b, err := json.Marshal(noted{t.client.name, t.session, t.id, t.lease, t.renews})
	if err != nil || len(b) > qosmutex.MaxNote {
		return nil
	}
	return b
}

// goOn opens what goes on from an earlier process, so that somebody sees to it. It comes
// before the first message.
func (g *gateway) goOn(ctx context.Context) {
	g.resume = map[string]bool{}
	for _, name := range g.server.Resumes() {
		g.resume[name] = name != RoleTopic
	}
	for name, holds := range g.resume {
		if !holds {
			continue
		}
		t, _ := g.topic(ctx, name, "")
		if t == nil { // it is not offered any more
			t = newTopic(g, name)
			t.resumes.Store(true)
		}
		g.wg.Go(func() { t.letGo(ctx) })
	}
	g.wg.Go(func() {
		role, err := g.server.Topic(ctx, RoleTopic) // it is open when the first client comes
		if err != nil {
			return
		}
		for _, h := range role.Resumed() {
			if t, _ := g.topic(ctx, h.Resource(), ""); t == nil {
				_ = h.Unlock()
			}
		}
	})
}

// letGo unlocks the holds that go on if this gateway does not have the role, once no client
// can believe in them any more: somebody else answers the clients.
func (t *topic) letGo(ctx context.Context) {
	lock, err := t.g.server.Topic(ctx, t.name)
	if err != nil {
		return
	}
	wait.Sleep(ctx, time.Duration(lock.Status().TTL))
	if !t.resumes.Swap(false) {
		return
	}
	for _, h := range lock.Resumed() {
		_ = h.Unlock()
	}
}

// resumedRole is the role for this lock topic if it goes on from an earlier process; else nil.
func (t *topic) resumedRole(role *qosmutex.Topic) *qosmutex.Hold {
	for _, h := range role.Resumed() {
		if h.Resource() == t.name && h.Check() == nil {
			return h
		}
	}
	return nil
}

// resume makes tickets of the holds that go on, before any message is read.
func (s *active) resume(ctx context.Context) {
	if !s.resumes.Load() {
		return
	}
	lock, err := s.g.server.Topic(ctx, s.name)
	if err != nil || !s.resumes.Swap(false) {
		return
	}
	for _, h := range lock.Resumed() {
		var n noted
		if json.Unmarshal(h.Note(), &n) == nil && n.Client != "" {
			s.goOn(lock, h, &n)
			continue
		}
		s.wg.Go(func() { // its client cannot be told from others, and believes in it until then
			wait.Sleep(s.ctx, h.Remaining())
			_ = h.Unlock()
		})
	}
}

// goOn makes the ticket of a hold again. Its lease begins again. The earlier process may have
// told its client just before it ended that the hold is valid for a TTL, whatever ours has been
// confirmed for so far.
func (s *active) goOn(lock *qosmutex.Topic, h *qosmutex.Hold, n *noted) {
	now := time.Now()
	c := s.clients[n.Client]
	if c == nil {
		c = s.know(n.Client, now)
	}
	s.arrivals++
	believed := max(h.Remaining(), time.Duration(lock.Status().TTL))
	t := &ticket{
		key: key{n.Session, n.ID}, client: c, arrived: s.arrivals, resource: h.Resource(), priority: h.Priority(), lease: n.Lease, renews: n.Renews,
		outcome: jsonlock.Granted, hold: h, fence: h.Fence(), heard: now, told: now.Add(believed),
		warning: lock.Warning(h.Resource()),
	}
	s.add(t)
	s.follow(t, news{attempt: &attempt{ticket: t, cancel: func() {}}, hold: h})
	s.schedule(t)
}
