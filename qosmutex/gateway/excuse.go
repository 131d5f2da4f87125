package gateway

import (
	"fmt"
	"time"

	"padme/qosmutex/jsonlock"
)

const (
	// excuseFor is for how long a client may believe an excuse.
	excuseFor = 1500 * time.Millisecond
	// maxExcused bounds the requests of which it is known until when they wait.
	maxExcused = 1 << 13
)

// clientKey names a request among those of all clients.
type clientKey struct {
	client string
	key
}

// excuses tell clients of a topic why nobody serves them, while the role of the gateway has
// no root. They are in no line yet.
type excuses struct {
	*topic
	ends map[clientKey]time.Time // when a request has waited for long enough; zero: never
}

// answer reads all messages and answers requests, if nobody can have the role. Otherwise it
// drops them if they are late.
func (e *excuses) answer(now time.Time, late bool) {
	why := e.g.server.Trouble(RoleTopic)
	if why == "" {
		if late {
			e.inbox.clear()
		}
		return
	}
	for all := e.inbox.take(); len(all) > 0; all = e.inbox.take() {
		for i := range all {
			e.excuse(&all[i], why, now)
		}
	}
}

func (e *excuses) excuse(m *message, why string, now time.Time) {
	r, err := jsonlock.DecodeRequest(m.payload)
	id := clientKey{m.client, key{r.Session, r.ID}}
	_, known := e.ends[id]
	if err != nil || m.retained || m.tooLarge > 0 || r.Op != jsonlock.Acquire && r.Op != jsonlock.Show && !(r.Op == jsonlock.Release && known) {
		return
	}
	if !e.g.mayExcuse(now) {
		return
	}
	a := jsonlock.Answer{ID: r.ID, Session: r.Session, Op: r.Op, Outcome: jsonlock.Denied, Reason: jsonlock.NotReady, Detail: why, Sent: r.Sent}
	switch {
	case r.Op == jsonlock.Release:
		delete(e.ends, id)
		a.Outcome, a.Reason, a.Detail = jsonlock.Released, "", ""
	case r.Op == jsonlock.Acquire && !e.over(id, &r, m.at):
		valid := validity(min(r.Lease, excuseFor))
		a.Outcome, a.ValidMS = jsonlock.Waiting, &valid
		fallthrough
	case r.Op == jsonlock.Acquire:
		a.Resource, a.Priority = r.Resource, &r.Priority
	}
	if a.Outcome == jsonlock.Denied {
		e.g.count.refused.WithLabelValues(string(a.Reason)).Inc()
	}
	e.g.send(e.name, m.client, a)
}

// over reports whether a request has waited for as long as it said when it was heard first:
// what a repetition says may be what is left of that.
func (e *excuses) over(id clientKey, r *jsonlock.Request, at time.Time) bool {
	end, known := e.ends[id]
	if !known {
		end = e.end(r, at)
		if len(e.ends) < maxExcused {
			e.ends[id] = end
		}
	}
	return !end.IsZero() && !at.Before(end)
}

// end is when a request that is heard now has waited for long enough; zero: never.
func (e *excuses) end(r *jsonlock.Request, at time.Time) time.Time {
	switch {
	case r.Wait > 0:
		return at.Add(r.Wait)
	case r.Wait == 0:
		return at.Add(e.g.server.Settles(0))
	}
	return time.Time{}
}

// trouble says why nobody is served now; "" if nothing is known to be wrong.
func (s *active) trouble() string {
	if why := s.g.server.Trouble(s.name); why != "" || s.lock != nil {
		return why
	}
	return fmt.Sprintf("%s looks for its root, and becomes that if there is none, which takes up to %v", s.g.p.ID(), s.settles.Round(100*time.Millisecond))
}

// tellInLine tells those that wait that they are in line, once nothing is wrong any more: else they
// would take what they were told for the reason until they ask again.
func (s *active) tellInLine(now time.Time) {
	switch {
	case !s.excused:
	case s.trouble() != "":
		s.ring(now.Add(againAfter))
	default:
		s.excused = false
		for t := range s.live {
			if t.outcome == jsonlock.Waiting {
				s.push(t)
			}
		}
	}
}
