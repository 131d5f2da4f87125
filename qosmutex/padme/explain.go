package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// What the root tells people of its decisions, if its caller wants it: who waited when it
// gave a token, by what each request was ordered, and who was chosen. Nothing that the
// machine does depends on it, so it is no part of the state.

// decision tells that r is about to be given to e, before e is counted as served. The
// caller fills in the grant. nil: nobody wants to know.
func (m *Machine) decision(r *resource, e *entry, how protocol.How) *protocol.Decision {
	if !m.out.Explain {
		return nil
	}
	d := m.newDecision(r, how)
	d.Chosen = m.waiter(e)
	d.Place = 1 + slices.IndexFunc(d.Queue, func(w protocol.Waiter) bool { return w.ID == e.id })
	return d
}

// decisionOf tells that r has gone on to s without us. Those who wait are those of whom
// we know when we hear of it.
func (m *Machine) decisionOf(r *resource, s *protocol.Scheduled) *protocol.Decision {
	if e := m.requests.get(s.ID); e != nil {
		return m.decision(r, e, protocol.HowDirect)
	}
	if !m.out.Explain {
		return nil
	}
	d := m.newDecision(r, protocol.HowDirect)
	d.Chosen = protocol.Waiter{ID: s.ID, Turn: s.ID.Clock, Priority: s.Priority} // withdrawn, or over already
	return d
}

func (m *Machine) newDecision(r *resource, how protocol.How) *protocol.Decision {
	list := &m.out.Decisions
	*list = append(*list, protocol.Decision{
		Resource: r.q.resource, Models: m.settings.Models, How: how, Waiting: m.waitFor(r),
		Queue: m.appendQueue(m.out.LendQueue(), r, protocol.MaxShown),
	})
	return &(*list)[len(*list)-1]
}

// named is how many requests that r would satisfy are known by name.
func (m *Machine) named(r *resource) int {
	n := len(r.q.waiting)
	if m.declared(r.q.resource) {
		n += len(m.any.waiting)
	}
	return n
}

// appendQueue lists the first most requests that r would satisfy in the order of service,
// with what puts each behind the one before it.
func (m *Machine) appendQueue(list []protocol.Waiter, r *resource, most int) []protocol.Waiter {
	a, b := r.q.waiting, m.any.waiting
	if !m.declared(r.q.resource) {
		b = nil
	}
	o := m.orderOf(r)
	var last *entry
	for ; most > 0 && len(a)+len(b) > 0; most-- {
		from := &a
		if len(a) == 0 || len(b) > 0 && o.before(b[0], a[0]) {
			from = &b
		}
		e := (*from)[0]
		*from = (*from)[1:]
		w := m.waiter(e)
		if last != nil {
			_, w.By = o.weigh(last, e)
		}
		list, last = append(list, w), e
	}
	return list
}

// waiter is one request as people see it.
func (m *Machine) waiter(e *entry) protocol.Waiter {
	w := protocol.Waiter{
		ID: e.id, Turn: e.turn, Client: e.client, Priority: e.priority, Any: e.q.resource == protocol.Any,
		Arrival: e.came, Passed: m.role == protocol.Root && !m.servable(e),
	}
	if e.deadline != protocol.Never {
		w.Deadline = e.deadline
	}
	if m.patient() {
		w.Patience, w.Exhausted = e.patience, e.patience == 0
	}
	if m.settings.Models.Priority == protocol.Aging {
		w.Level = e.level
	}
	return w
}
