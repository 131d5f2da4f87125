package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// The schedule of a token that is out under Direct: which requests come next, each with
// the number, fence and session of its grant. The root numbers a grant once and never
// takes it back, for it cannot know how far the token is: another order gets other, higher
// numbers. So it keeps all that are numbered and may be live, which are those above the
// newest that it has heard of. Any of them may have the token by now; all other
// participants cannot.

// maxOutstanding bounds them. A root that changes its mind so often lets the token come home.
const maxOutstanding = 4 * protocol.ScheduleLength

// succession is which grants come after the present one.
type succession struct {
	list     []protocol.Scheduled // by number
	version  protocol.Grant       // the newest that was numbered when this was made
	outdated int                  // at the root: so many of the list are in another order than the queue by now

	direct    bool // at the root: the present grant was given under Direct, and may go on without us
	forwarded bool // at the root: its target has it from another participant
	told      bool // at the root: and from us, as the other message may be lost
}

// made is the schedule of t, an empty one if it has none.
func (t *token) made() *succession {
	if t.follows == nil {
		t.follows = &succession{}
	}
	return t.follows
}

// list is that of the schedule.
func (t *token) list() []protocol.Scheduled {
	if t.follows == nil {
		return nil
	}
	return t.follows.list
}

// inOrder are those that are in the order of the queue.
func (t *token) inOrder() []protocol.Scheduled {
	if t.follows == nil {
		return nil
	}
	return t.follows.list[t.follows.outdated:]
}

// direct reports, at the root, whether the grant may go on without us.
func (t *token) direct() bool { return t.follows != nil && t.follows.direct }

// forwarded reports, at the root, whether the target has it from another participant.
func (t *token) forwarded() bool { return t.follows != nil && t.follows.forwarded }

func (t *token) version() protocol.Grant {
	if t.follows == nil {
		return protocol.Grant{}
	}
	return t.follows.version
}

// unschedule forgets all of that: the token is at home, or we are not the root.
func (t *token) unschedule() {
	if t.follows != nil {
		*t.follows = succession{list: t.follows.list[:0]}
	}
}

// scheduled is the place of a grant in the schedule, or -1.
func (t *token) scheduled(g protocol.Grant) int {
	if g.Epoch != t.grant.Epoch {
		return -1
	}
	return slices.IndexFunc(t.list(), func(s protocol.Scheduled) bool { return s.Number == g.Number })
}

// newestNumbered is the newest grant on which somebody may have the token.
func (t *token) newestNumbered() protocol.Grant {
	g := t.grant
	if list := t.list(); len(list) > 0 {
		g.Number = list[len(list)-1].Number
	}
	return g
}

// mayHave reports, at the root, whether the member of s can enter on a grant that is out:
// its session must be older.
func (t *token) mayHave(s *memberSession) bool {
	if s.after.Compare(t.grant) < 0 && (!t.sole() || s.node == t.target.Node) {
		return true
	}
	return slices.ContainsFunc(t.list(), func(next protocol.Scheduled) bool {
		return next.ID.Node == s.node && s.after.Compare(protocol.Grant{Epoch: t.grant.Epoch, Number: next.Number}) < 0
	})
}

// reschedules keeps the schedules in line with the queues that this Step has changed.
func (m *Machine) reschedules() {
	if m.role != protocol.Root || !m.directs() {
		return
	}
	for _, name := range m.out.Touched {
		if name == protocol.Any {
			for _, r := range m.resources {
				m.reschedule(r)
			}
			return
		}
		if r := m.find(name); r != nil {
			m.reschedule(r)
		}
	}
}

// reschedule makes the schedule of a token that is out what the queue says. What is only
// longer goes to the participant that was the last of it, all else to the one that we
// believe to have the token. It reports whether that one was told.
func (m *Machine) reschedule(r *resource) (told bool) {
	t := &r.tok
	if t.phase != below || !m.mayNumber(t) {
		return false
	}
	var room [protocol.ScheduleLength]*entry
	list := m.following(r, room[:0])
	s, wanted := t.made(), t.inOrder()
	same := 0
	for same < min(len(wanted), len(list)) && wanted[same].ID == list[same].id {
		same++
	}
	to := t.target.Node
	switch {
	case same < len(wanted):
		if s.outdated = len(s.list); len(s.list)+len(list) > maxOutstanding || m.number(r, list) == 0 {
			m.grants++ // the version of a schedule of none
			s.version = m.newestGrant()
		}
		m.sendSchedule(r, to, t.inOrder())
		return true
	case same < len(list) && len(s.list)+len(list)-same <= maxOutstanding:
		from := len(s.list)
		if same > 0 {
			to = wanted[same-1].ID.Node
		}
		if m.number(r, list[same:]) > 0 {
			m.sendSchedule(r, to, s.list[from:])
			return same == 0
		}
	}
	return false
}

// mayNumber reports whether grants that follow the present one of t may be numbered.
func (m *Machine) mayNumber(t *token) bool {
	return t.direct() && t.recovery == nil && m.directs() && m.acting() && !m.inheriting() && !m.departing
}

// following are the requests that come next, in order, as far as one can be served after
// the other without us. Not our own, nor two of one participant in turn, which would have
// to send the token to itself, nor one that overtakes a request for any, whose patience
// others use up, too.
func (m *Machine) following(r *resource, list []*entry) []*entry {
	var any *entry
	earliest := uint64(math.MaxUint64) // arrival of one for any
	if m.declared(r.q.resource) {
		any = m.ready(&m.any)
		for _, o := range m.any.waiting {
			earliest = min(earliest, o.came)
		}
	}
	o := m.orderOf(r)
	last := r.tok.target.Node
	for _, e := range r.q.waiting {
		if len(list) == protocol.ScheduleLength || any != nil && o.before(any, e) || e.try || e.from == nil || e.id.Node == last || m.patient() && e.came > earliest {
			break
		}
		if s := m.sessionOf(e.id.Node); e.named && s != nil && !s.goodbye && !m.quiet(e) {
			list = append(list, e)
			last = e.id.Node
		}
	}
	return list
}

// number appends requests to the schedule, as long as there are fences and those that
// they overtake are patient enough. It returns how many.
func (m *Machine) number(r *resource, list []*entry) (n int) {
	t := &r.tok
	s := t.made()
	for _, e := range list {
		if t.next+2*maxDepth > m.authority.ceiling || !m.mayOvertake(r, e) {
			break
		}
		m.grants++
		s.list = append(s.list, protocol.Scheduled{
			Number: m.grants, ID: e.id, Priority: e.priority, Fence: t.next, Session: m.sessionOf(e.id.Node).number,
		})
		t.next++
		s.version, t.back = m.newestGrant(), protocol.Never
		n++
	}
	return n
}

// mayOvertake reports whether all that came before e, and are served after it, have the
// patience for all that is numbered so far and for e. They count what is served only when
// we hear of it.
func (m *Machine) mayOvertake(r *resource, e *entry) bool {
	if !m.patient() {
		return true
	}
	t := &r.tok
	return !slices.ContainsFunc(r.q.waiting, func(o *entry) bool {
		return o.came < e.came && int(o.patience) <= len(t.list()) &&
			!slices.ContainsFunc(t.inOrder(), func(s protocol.Scheduled) bool { return s.ID == o.id })
	})
}

// sendSchedule tells a participant what comes after it.
func (m *Machine) sendSchedule(r *resource, to protocol.Node, list []protocol.Scheduled) {
	msg := m.emit(protocol.KindSchedule, to)
	msg.Resource, msg.Grant, msg.Schedule = r.q.resource, r.tok.version(), m.out.Lend(list)
}
