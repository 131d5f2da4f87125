package padme

import (
	"slices"
	"strings"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// A member that is started again goes on with what its former process was inside of, as long as
// the root keeps that one's session. It names it when it asks for a session of its own, with its
// holds. Only one process at a time can be in its place, so the root knows by that that the
// former one has ended, and lets the new one have the grants which it names. It ends the former
// session when the new process shows that it has heard so: until then another root has to wait for
// it, and the process after the next may name it again. Each hold goes on with its fence. Until the
// new process has heard which ones do, it answers no Sync about any of them, for somebody goes by
// them.

// predecessor is what a process knows of the one before it, until the root has answered.
type predecessor struct {
	session protocol.Former
	holds   []wasHeld // by resource
}

// wasHeld is a hold of that process, and what this one calls it.
type wasHeld struct {
	protocol.Held
	id protocol.RequestID
}

// follows names the holds of the process before.
func (m *Machine) follows(cfg *protocol.Config) {
	if cfg.Former.Session == 0 || cfg.Former.Incarnation == cfg.Self.Incarnation {
		return
	}
	m.former = &predecessor{session: cfg.Former}
	for _, h := range cfg.Held {
		if h.Ref != 0 && h.Fence != 0 && single(h.Resource) {
			m.former.holds = append(m.former.holds, wasHeld{Held: h})
		}
	}
	slices.SortStableFunc(m.former.holds, func(a, b wasHeld) int { return strings.Compare(a.Resource, b.Resource) })
	m.former.holds = slices.CompactFunc(m.former.holds, func(a, b wasHeld) bool { return a.Resource == b.Resource })
	for i := range m.former.holds {
		m.lastName++
		m.former.holds[i].id = protocol.RequestID{Node: m.self, Clock: m.lastName}
	}
}

func (p *predecessor) holdOf(resource string) *wasHeld {
	i, ok := slices.BinarySearchFunc(p.holds, resource, func(h wasHeld, name string) int { return strings.Compare(h.Resource, name) })
	if !ok {
		return nil
	}
	return &p.holds[i]
}

func (p *predecessor) clone() *predecessor {
	if p == nil {
		return nil
	}
	return &predecessor{p.session, slices.Clone(p.holds)}
}

func (p *predecessor) write(w *canonical.Writer) {
	if !w.Is(p != nil) {
		return
	}
	w.Uint(p.session.Incarnation, p.session.Session, uint64(len(p.holds)))
	for i := range p.holds {
		h := &p.holds[i]
		w.Text(h.Resource)
		w.Text(h.Client)
		w.Uint(h.Ref)
		w.Int(h.Priority)
		w.Named(canonical.SortFence, h.Fence)
		w.ID(h.id)
	}
}

// maxAsked bounds what names holds in a heartbeat, in bytes: it has to fit into a packet. What is not
// named is over, and is waited for.
const maxAsked = 1 << 20

// askToGoOn adds to a question for a session what the process before had.
func (m *Machine) askToGoOn(msg *protocol.Message) {
	if m.former == nil {
		return
	}
	msg.Former = m.former.session
	room := maxAsked
	for i := range m.former.holds {
		h := &m.former.holds[i]
		if room -= len(h.Resource) + len(h.Client) + len(m.self.ID) + 64; room < 0 {
			msg.Tokens = append(msg.Tokens, protocol.TokenState{}) // there are more
			return
		}
		msg.Tokens = append(msg.Tokens, protocol.TokenState{Resource: h.Resource, Target: h.id, Fence: h.Fence, Client: h.Client})
	}
}

// mayGoOn reports whether a hold of the process before may still go on here.
func (m *Machine) mayGoOn(resource string) bool {
	return m.former != nil && m.former.holdOf(resource) != nil
}

// goOnAsMember takes the holds that go on under our first session.
func (m *Machine) goOnAsMember(msg *protocol.Message) {
	p := m.former
	m.former = nil
	if p == nil {
		return
	}
	for i := range msg.Tokens {
		ts := &msg.Tokens[i]
		if h := p.holdOf(ts.Resource); h != nil && h.id == ts.Target && h.Fence == ts.Fence && m.resource(ts.Resource).tok.phase != using {
			m.goOnInside(h, ts.Grant)
		}
	}
}

// goOnInside has us inside on a grant that the root knows to be ours.
func (m *Machine) goOnInside(h *wasHeld, g protocol.Grant) {
	m.idle = false
	m.counters.Adopted++
	r, e := m.resource(h.Resource), m.newEntry()
	e.ref, e.id, e.priority, e.fixed, e.client, e.q, e.asked = h.Ref, h.id, h.Priority, true, h.Client, &r.q, 1
	e.turn = h.id.Clock
	m.setDeadline(e, 0, 0, 0)
	m.own = append(m.own, e)
	m.requests.add(e)
	m.wait(e)
	t := &r.tok
	t.unschedule()
	t.bound = protocol.Grant{} // all other grants of it are of before that one, or still to come
	t.grant, t.target, t.prio, t.fences, t.until = g, e.id, e.priority, protocol.Fences{Next: h.Fence, End: h.Fence + 1}, 0
	t.entries, t.returned, t.retain, t.passed = t.entries[:0], false, false, nil
	m.enter(r, e, protocol.HowResumed)
}

// succeed gives a session that has just begun what the process before it was inside of. The session
// of that one ends soon, unless it names a hold of which we do not know: somebody goes by it for as
// long as that session lasts.
func (m *Machine) succeed(s *memberSession, msg *protocol.Message) {
	was := m.sessionOf(protocol.Node{ID: s.node.ID, Incarnation: msg.Former.Incarnation})
	if was == nil || was == s || was.number != msg.Former.Session || was.goodbye {
		return
	}
	s.after = was.after // of the grants since then it has those that it names, and is bound not to enter on others
	all := true
	for i := range msg.Tokens {
		ts := &msg.Tokens[i]
		r := m.find(ts.Resource)
		if r == nil || ts.Target.Node != s.node || !m.isInside(r, was.node, ts.Fence) {
			all = false
			continue
		}
		m.passOver(r, ts)
	}
	if all {
		s.replaces = was.node.Incarnation
	}
}

// replaced ends the session of the process before, once the new one knows what goes on.
func (m *Machine) replaced(s *memberSession) {
	was := m.sessionOf(protocol.Node{ID: s.node.ID, Incarnation: s.replaces})
	s.replaces = 0
	if was == nil {
		return
	}
	was.goodbye = true
	m.endSession(was)
	m.tellNeighbors(&roster{members: []*memberSession{was}})
}

// isInside reports, at the root, whether the present grant of r is one that a member is inside of
// with that fence. It may have got the token past us.
func (m *Machine) isInside(r *resource, n protocol.Node, fence uint64) bool {
	t := &r.tok
	if t.phase != below || t.unreported() {
		return false
	}
	if o := m.sessionOf(t.target.Node); o != nil && o.node.ID == n.ID && o.replaces == n.Incarnation && t.fences.Next == fence {
		return true // it was passed over to a process in between, which ended before it heard so
	}
	if at := slices.IndexFunc(t.list(), func(s protocol.Scheduled) bool { return s.ID.Node == n && s.Fence == fence }); at >= 0 {
		m.advance(r, at)
	}
	return t.target.Node == n && t.fences.Next <= fence && fence < t.fences.End
}

// passOver has the present grant be that of a process which goes on with the hold of the one before.
func (m *Machine) passOver(r *resource, ts *protocol.TokenState) {
	t := &r.tok
	if e := m.requests.get(t.target); e != nil && e.from != nil {
		m.remove(e)
	}
	m.touch(ts.Resource)
	t.unschedule() // who is inside has the token, so nobody got it that comes later
	t.recovery = nil
	t.target, t.fences = ts.Target, protocol.Fences{Next: ts.Fence, End: ts.Fence + 1}
	t.until, t.retain, t.idle, t.down, t.passed = 0, false, false, nil, nil
	t.holder = &holder{protocol.Entry{ID: ts.Target, Fence: ts.Fence}, t.prio, ts.Client}
}

// goesOn lists the holds of the process before that a session goes on with.
func (m *Machine) goesOn(msg *protocol.Message) (list []protocol.TokenState) {
	for i := range msg.Tokens {
		ts := msg.Tokens[i]
		if r := m.find(ts.Resource); r != nil && ts.Target.Node == msg.From && r.tok.phase == below && r.tok.target == ts.Target && r.tok.fences.Next == ts.Fence {
			ts.Grant = r.tok.grant
			list = append(list, ts)
		}
	}
	return list
}
