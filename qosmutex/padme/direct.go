package padme

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// Direct: a participant that leaves sends the token straight to the next one of its
// schedule, with the rest of the schedule, and tells the root in parallel. The root numbers
// the grants of a schedule beforehand; see schedule. So the token goes from grant to grant
// of rising numbers, each with one target, which passes it on once: the
// others of the schedule can only enter on it after that.
//
// Nothing rests on a message of the direct way. One that is lost is replaced by a Reply of
// the root down the tree, or by a search; one that is doubled or late names a grant that
// its receiver has had, or has answered for.

// follow takes a schedule that is newer than what we know. One that is not newer than the
// grant that we had says nothing any more.
func (t *token) follow(version protocol.Grant, list []protocol.Scheduled) {
	if version.Compare(t.version()) > 0 && version.Compare(t.grant) > 0 {
		s := t.made()
		s.version, s.list = version, append(s.list[:0], list...)
	}
}

// followReply takes the schedule of a Reply.
func (t *token) followReply(msg *protocol.Message) {
	if n := len(msg.Schedule); n > 0 {
		t.follow(protocol.Grant{Epoch: msg.Grant.Epoch, Number: msg.Schedule[n-1].Number}, msg.Schedule)
	}
}

// drop forgets the schedule, and all up to a grant that come yet.
func (t *token) drop(upTo protocol.Grant) {
	s := t.made()
	if s.list = s.list[:0]; s.version.Compare(upTo) < 0 {
		s.version = upTo
	}
}

// ahead is what of the schedule comes after the grant that we had.
func (t *token) ahead() []protocol.Scheduled {
	s := t.follows
	if s == nil || s.version.Compare(t.grant) <= 0 {
		return nil
	}
	i := 0
	if s.version.Epoch == t.grant.Epoch {
		for i < len(s.list) && s.list[i].Number <= t.grant.Number {
			i++
		}
	}
	return s.list[i:]
}

// isSchedule reports whether grants and fences of a list rise, from above those given.
func isSchedule(list []protocol.Scheduled, number, fence uint64) bool {
	for i := range list {
		s := &list[i]
		if s.Number <= number || s.Fence < fence || s.ID.IsZero() || s.Session == 0 {
			return false
		}
		number, fence = s.Number, s.Fence+1
	}
	return true
}

// passOn sends the token that we leave to the next participant of the schedule, and tells
// those above. It reports whether it did: without a schedule the token goes home.
func (m *Machine) passOn(r *resource) bool {
	t := &r.tok
	if !m.directs() || m.parent == nil || m.session.number == 0 || m.old(t.grant) || t.retain || t.version().Epoch != m.epoch {
		return false
	}
	rest := t.ahead()
	for len(rest) > 0 && rest[0].ID.Node == m.self { // it was made when we were not expected to have the token
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return false
	}
	next := &rest[0]
	grant := protocol.Grant{Epoch: m.epoch, Number: next.Number}
	if t.bound.Compare(grant) >= 0 {
		return false // the root looks for the token
	}
	msg := m.emit(protocol.KindReply, next.ID.Node)
	msg.Flags = protocol.FlagDirect
	msg.ID, msg.Priority, msg.Resource, msg.Grant = next.ID, next.Priority, r.q.resource, grant
	msg.Fences, msg.Session, msg.Schedule = protocol.Fences{Next: next.Fence, End: next.Fence + 1}, next.Session, m.out.Lend(rest[1:])
	m.sendRelease(&protocol.Message{Flags: protocol.FlagDirect, ID: t.target, Resource: r.q.resource, Grant: grant, Entries: t.entries})
	t.phase, t.down, t.passed, t.entries = away, nil, nil, t.entries[:0]
	return true
}

// onDirect takes the token from the participant that had it before. Only a participant that the root has
// put on the schedule gets it so, under the session that it had then.
func (m *Machine) onDirect(msg *protocol.Message) error {
	switch {
	case msg.ID.Node != m.self || !single(msg.Resource) || msg.Fences.Next == 0 || msg.Fences.End != msg.Fences.Next+1 ||
		!isSchedule(msg.Schedule, msg.Grant.Number, msg.Fences.End):
		return m.invalid(msg, "not a grant of ours")
	case m.role == protocol.Root || m.session.number == 0 || msg.Session != m.session.number || msg.Grant.Epoch != m.epoch:
		return m.stale(msg, "a grant of another session or term")
	case !m.directs(): // the grant comes down the tree; else any member could make one in any lock
		return m.stale(msg, "a direct grant under another Release model")
	case !m.known(msg.Resource):
		return m.stale(msg, "no such resource")
	}
	r := m.resource(msg.Resource)
	t := &r.tok
	if msg.Grant.Compare(t.grant) <= 0 || msg.Grant.Compare(t.bound) <= 0 {
		return m.stale(msg, "an old grant")
	}
	if msg.Fences.Next < t.fences.Next {
		return m.invalid(msg, "a fence below one that we had")
	}
	if t.phase == using {
		return m.invalid(msg, fmt.Sprintf("grant %v of what we are inside of on grant %v", msg.Grant, t.grant))
	}
	m.mergeClock(msg)
	t.grant, t.target, t.prio, t.fences, t.until = msg.Grant, msg.ID, msg.Priority, msg.Fences, 0
	t.entries, t.returned, t.retain, t.down = t.entries[:0], false, false, nil
	t.followReply(msg)
	if e := m.requests.get(msg.ID); e != nil && e.state == waiting {
		m.overtake(r, e)
		m.enter(r, e, protocol.HowDirect)
		return nil
	}
	m.counters.Returned++ // withdrawn, or served already: it was on two schedules
	t.fences.Next = t.fences.End
	if !m.passOn(r) {
		m.passUp(r, false)
	}
	return nil
}

// onSchedule hears whom to send the token to when we leave, if we have it or get it.
func (m *Machine) onSchedule(msg *protocol.Message) error {
	n := len(msg.Schedule)
	switch {
	case !isSchedule(msg.Schedule, 0, 1) || n > 0 && msg.Schedule[n-1].Number > msg.Grant.Number:
		return m.invalid(msg, "not a schedule")
	case m.role == protocol.Root || msg.From != m.root || m.session.number == 0 || msg.Grant.Epoch != m.epoch || !single(msg.Resource) || !m.known(msg.Resource):
		return m.stale(msg, "not from our root, or of another term")
	}
	m.resource(msg.Resource).tok.follow(msg.Grant, msg.Schedule)
	return nil
}
