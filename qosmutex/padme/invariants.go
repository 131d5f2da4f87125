package padme

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// CheckInvariants reports the first broken rule that can be seen at one
// participant alone. It is for simulations and tests, after every Step.
func (m *Machine) CheckInvariants() error {
	queued := 0
	for q := range m.eachQueue {
		if err := m.checkQueue(q); err != nil {
			return err
		}
		queued += len(q.waiting)
	}
	for _, r := range m.resources {
		if err := m.checkToken(r); err != nil {
			return err
		}
	}
	for _, e := range m.requests {
		id := e.id
		if m.requests.get(id) != e {
			return fmt.Errorf("request %v is not found by its name", id)
		}
		if e.from == nil && id.Node != m.self {
			return fmt.Errorf("request %v of another participant came from nowhere", id)
		}
		if e.from != nil && m.child(e.from.peer) != e.from {
			return fmt.Errorf("request %v came from %v, which is no child", id, e.from.peer)
		}
		for i, o := range e.also {
			again := func(b way) bool { return b.link == o.link }
			if o.link == e.from || m.child(o.link.peer) != o.link || slices.ContainsFunc(e.also[:i], again) {
				return fmt.Errorf("request %v came from %v before, which is no other child", id, o.link.peer)
			}
		}
		if e.state == waiting {
			queued--
		}
		if e.state == waiting && e.try && m.acting() && !m.recalling(e.q) {
			return fmt.Errorf("the try %v waits at the root", id)
		}
		out := func(r *resource) bool { return r.tok.phase == below && r.tok.target == e.id }
		if e.state == served && m.role == protocol.Root && !slices.ContainsFunc(m.resources, out) {
			return fmt.Errorf("request %v was granted, but its token is not out", id)
		}
	}
	if queued != 0 {
		return fmt.Errorf("%d more requests are queued than wait", queued)
	}
	if err := m.checkPatience(); err != nil {
		return err
	}
	return m.checkTree()
}

// checkPatience demands that no request, at the root, is to be overtaken by more of those
// that are scheduled than it has patience for.
func (m *Machine) checkPatience() error {
	if m.role != protocol.Root || !m.patient() || !m.directs() {
		return nil
	}
	for _, e := range m.requests {
		n := 0
		for _, r := range m.resources {
			if e.q == &r.q || e.q == &m.any && m.declared(r.q.resource) {
				n += m.overtaking(r, e)
			}
		}
		if e.state == waiting && n > int(e.patience) {
			return fmt.Errorf("request %v has patience for %d, and %d that came later are scheduled before it", e.id, e.patience, n)
		}
	}
	return nil
}

// overtaking is how many that came later than e are on the schedule of r before it.
func (m *Machine) overtaking(r *resource, e *entry) (n int) {
	for _, s := range r.tok.inOrder() {
		if s.ID == e.id {
			break
		}
		if o := m.requests.get(s.ID); o != nil && o.came > e.came {
			n++
		}
	}
	return n
}

func (m *Machine) checkQueue(q *queue) error {
	for i, e := range q.waiting {
		if m.requests.get(e.id) != e || e.state != waiting {
			return fmt.Errorf("queue %q holds a dead request %v", q.resource, e.id)
		}
		if m.settings.Models.Priority == protocol.Aging && (e.level == 0) != (e.patience == 0) {
			return fmt.Errorf("request %v is at level %d with a patience of %d", e.id, e.level, e.patience)
		}
		if i > 0 && compare(m.ordering(), q.waiting[i-1], e) >= 0 {
			return fmt.Errorf("queue %q is out of order at %d", q.resource, i)
		}
		if m.parent != nil && e.hops < maxDepth && !e.sent && (e == q.head() || e.try || m.climbs()) {
			return fmt.Errorf("request %v for %q waits here but our parent does not know it", e.id, q.resource)
		}
	}
	return nil
}

func (m *Machine) checkToken(r *resource) error {
	t := &r.tok
	switch {
	case (t.phase == using) != (t.inside != nil):
		return fmt.Errorf("resource %q: phase %d but inside is %v", r.q.resource, t.phase, t.inside)
	case t.inside != nil && (t.inside.state != inside || t.inside.q != &r.q || m.requests.get(t.inside.id) != t.inside):
		return fmt.Errorf("resource %q: a dead request is inside", r.q.resource)
	case t.phase == home && m.role != protocol.Root:
		return fmt.Errorf("resource %q: its token rests at %v, which is not the root", r.q.resource, m.self)
	case m.role == protocol.Root && (t.phase == away || t.phase == kept):
		return fmt.Errorf("resource %q: the root does not know where its token is", r.q.resource)
	case t.phase == home && m.mayGive(r) && m.first(r) != nil:
		return fmt.Errorf("resource %q: its token rests while %v waits", r.q.resource, m.first(r).id)
	case t.phase == using && m.role != protocol.Root && m.session.number == 0:
		return fmt.Errorf("resource %q: held without a session", r.q.resource)
	case t.phase == kept && m.parent != nil && !(t.retain && t.usable() && m.session.number != 0):
		return fmt.Errorf("resource %q: a token of no use is kept", r.q.resource)
	case m.role == protocol.Root && len(t.list()) > 0 &&
		!(t.phase == below && t.direct() && isSchedule(t.list(), t.grant.Number, t.fences.End) && t.list()[len(t.list())-1].Fence < t.next):
		return fmt.Errorf("resource %q: a schedule %v after grant %v, fences %v below %d, in phase %d", r.q.resource, t.list(), t.grant, t.fences, t.next, t.phase)
	case t.phase == using && t.grant.Compare(t.bound) < 0:
		return fmt.Errorf("resource %q: held on a grant that was answered for", r.q.resource)
	}
	return nil
}

func (m *Machine) checkTree() error {
	switch {
	case m.role == protocol.Member && (m.parent == nil || m.session.number == 0):
		return fmt.Errorf("a member without a parent or session")
	case m.role == protocol.Root && m.parent != nil:
		return fmt.Errorf("a root with a parent")
	case m.parent != nil && m.child(m.parent.peer) != nil:
		return fmt.Errorf("%v is parent and child", m.parent.peer)
	}
	return nil
}
