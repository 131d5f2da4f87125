package gateway

import (
	"time"

	"padme/qosmutex/jsonlock"
)

// show tells what holds for the lock topic. Before it is open it says why it is not, or
// answers once it is.
func (s *active) show(c *client, r *jsonlock.Request, at time.Time) {
	if s.lock == nil {
		s.showLater(c, r, at)
		return
	}
	v := s.lock.View()
	size := 0
	for _, name := range v.Resources {
		size += len(name)
	}
	if size > jsonlock.MaxAnswer/4 {
		s.refuse(c, r, jsonlock.Refuse(jsonlock.TooLarge, "the lock has %d resources, more than an answer has room for: read the retained message lock/%s/view", len(v.Resources), s.name))
		return
	}
	s.g.send(s.name, c.name, jsonlock.Answer{
		ID: r.ID, Session: r.Session, Op: r.Op, Outcome: jsonlock.Shown, Sent: r.Sent,
		Models: v.Models, Resources: v.Resources, Open: v.Open, TTLMS: int64(v.TTL * 1000),
	})
}

// question is a show that waits for the lock topic to be open.
type question struct {
	client  *client
	request *jsonlock.Request
}

// showLater keeps a question, once however often it is asked. One that there is no room for
// is repeated by its client.
func (s *active) showLater(c *client, r *jsonlock.Request, at time.Time) {
	id := clientKey{c.name, key{r.Session, r.ID}}
	if why := s.g.server.Trouble(s.name); why != "" {
		delete(s.shows, id)
		s.refuse(c, r, jsonlock.Refuse(jsonlock.NotReady, "%s", why))
		return
	}
	if _, kept := s.shows[id]; kept || len(s.shows) < maxShows {
		s.shows[id] = question{c, r}
	} else {
		s.g.beyond(limitQuestions, s.name, c.name, at)
	}
	s.reopen()
}

// showKept answers what was asked before the lock topic was open, or could not be opened.
func (s *active) showKept(err error) {
	for _, q := range s.shows {
		if err != nil {
			s.refuse(q.client, q.request, jsonlock.Refuse(reasonOf(err), "%s", detailOf(err)))
			continue
		}
		s.show(q.client, q.request, time.Now())
	}
	clear(s.shows)
}
