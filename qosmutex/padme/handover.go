package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// considerHandover gives the root to a child that has outranked it for long
// enough.
func (m *Machine) considerHandover() {
	best := m.bestChild()
	if best == nil || m.under != "" || rank(best.priority, best.peer, m.priority, m.self) > 0 {
		m.outranks = 0
		return
	}
	if m.outranks == 0 {
		m.outranks = m.now
	}
	if m.now-m.outranks >= m.timing.MoveAfter {
		m.handOver(best)
	}
}

// bestChild is the most important child that could be the root. The topic would die
// with one that has said goodbye, that has been silent for two heartbeats and may be
// dead, or that has sent nothing yet, and so may not have taken us for its parent; and
// one that leaves would hand it back.
func (m *Machine) bestChild() *link {
	var best *link
	for _, l := range m.children {
		s := m.sessionOf(l.peer)
		if l.leaving || l.parting || l.received == 0 || m.now-l.heard > 2*m.heartbeat() || s == nil || s.goodbye {
			continue
		}
		if best == nil || rank(l.priority, l.peer, best.priority, best.peer) < 0 {
			best = l
		}
	}
	return best
}

// handOver makes child l the root of the next epoch. From here on we neither
// grant nor answer: our state goes over in one message, and we attach below our
// successor. It reports false if that cannot be now.
func (m *Machine) handOver(l *link) bool {
	if l == nil || !m.acting() { // before, the state is not ours to give, nor a session
		return false
	}
	next := protocol.Epoch{Number: m.epoch.Number + 1, Tie: tie(l.peer)}
	if next.View() != m.epoch.View() || !m.mayResignTo(l.peer) {
		return false
	}
	m.lastSession++
	msg := m.emitOn(l, protocol.KindHandover)
	msg.Epoch, msg.Root = next, l.peer
	msg.Number, msg.Settings, msg.TTL = m.grants, m.settings, m.timing.TTL
	msg.Fences = protocol.Fences{Next: m.fences, End: m.fences}
	if rg := m.reign(); rg != nil && len(m.ballot.of.voters) > 1 {
		msg.Grant = protocol.Grant{Epoch: m.epoch, Number: m.ballot.of.version}
		msg.Path = m.ballot.of.voters
		msg.Fences.End = max(m.fences, m.ballot.fences)
	}
	for _, r := range m.resources {
		t := &r.tok
		msg.Tokens = append(msg.Tokens, protocol.TokenState{
			Resource: r.q.resource, Out: t.phase != home, Grant: t.grant, Target: t.target, Fence: t.next,
			Path: []protocol.Node{m.self},
		})
		if t.phase == using && t.target.Node != m.self { // we Use it: it has come up to us already
			msg.Tokens[len(msg.Tokens)-1].Path = nil
		}
	}
	for _, s := range m.sessions {
		if s.node != l.peer && !s.goodbye {
			msg.Sessions = append(msg.Sessions, protocol.SessionState{Node: s.node, Number: s.number, Priority: s.priority, Parent: protocol.Node{ID: s.parent}})
		}
	}
	msg.Sessions = append(msg.Sessions, protocol.SessionState{Node: m.self, Number: m.lastSession, Priority: m.priority, Parent: l.peer})
	m.commit(l, msg)
	m.abdicate(l, next)
	return true
}

// mayResignTo reports whether a child can succeed us: it must have a vote, and
// the voters be known to all. If it has none, it is to get one.
func (m *Machine) mayResignTo(n protocol.Node) bool {
	rg := m.reign()
	if rg == nil {
		return true
	}
	voters := m.ballot.of.voters
	if !rg.confirmed || m.inheriting() {
		return false
	}
	if len(voters) > 1 && !slices.Contains(voters, n) {
		rg.heir = n
		return false
	}
	return true
}

// release frees us from our lease, as a voter like others for our successor.
func (m *Machine) release(successor protocol.Node, next protocol.Epoch) {
	if !m.votes() {
		m.entrust(next, successor)
		return
	}
	b := m.ballot
	b.epoch, b.root, b.until, b.reign = next, successor, m.now+m.promiseSpan(), nil
}

// takeOffice takes over the voters with the root. They must confirm us before we
// act; until then what we hold goes by the session that we had.
func (m *Machine) takeOffice(msg *protocol.Message) {
	if m.ballot == nil { // also if we decide alone: somebody may be back who counts on voters of whom we never heard
		m.ballot = &ballot{}
	}
	if len(msg.Path) < 2 {
		m.entrust(msg.Epoch, m.self)
		return
	}
	b := m.ballot
	b.of = electorate{msg.Epoch, msg.Grant.Number + 1, slices.Clone(msg.Path)}
	b.epoch, b.root, b.standing = msg.Epoch, m.self, standing{}
	b.fences = max(b.fences, msg.Fences.End)
	b.reign = &reign{until: m.session.until}
}

// abdicate makes the old root a member. Sending the state counts as a heartbeat
// that the successor answers on receipt.
func (m *Machine) abdicate(l *link, next protocol.Epoch) {
	m.role = protocol.Joining
	m.children = slices.DeleteFunc(m.children, func(c *link) bool { return c == l })
	for _, e := range m.liveEntries() {
		if m.takeBack(e, l) {
			m.remove(e) // it is in the successor's own queue
		}
	}
	m.nameMoved()
	m.any.forget(l)
	for _, r := range m.resources {
		r.q.forget(l)
		t := &r.tok
		if t.phase == home || t.phase == below && t.down == l {
			t.phase, t.down = away, nil
			t.passed = &l.peer
		}
		t.recovery = nil
		if t.phase == away {
			t.bind(t.grant)
		}
	}
	m.release(l.peer, next)
	m.handed = l // its Handover may have to be repeated
	m.sessions = nil
	m.epoch, m.root = next, l.peer
	m.session = session{number: m.lastSession, until: m.now + m.timing.TTL, asked: m.session.asked}
	m.outranks = 0
	m.join = nil
	m.attach(l.peer, true)
}

// forgetHandover is due at any sign that there is a root after us. We are a member
// like others then: only a former root that saw no such sign begins anew, see lapse.
func (m *Machine) forgetHandover() {
	if m.handed != nil {
		m.linkGen = max(m.linkGen, m.handed.gen)
		m.handed = nil
	}
}

// nameMoved lets the requests wait again whose grant may have gone another way than
// the one that leads to them now, here or further down: the successor must know them,
// for if the token is lost on the old way, it is the one that serves them again.
func (m *Machine) nameMoved() {
	for _, e := range m.liveEntries() {
		if e.state != served || e.from == nil {
			continue
		}
		if e.again || !slices.ContainsFunc(m.resources, func(r *resource) bool {
			return r.tok.phase == below && r.tok.target == e.id && r.tok.down == e.from
		}) {
			m.unsend(e)
			m.wait(e)
		}
	}
}

// onHandover makes us the root.
func (m *Machine) onHandover(msg *protocol.Message) error {
	if msg.Epoch.Compare(m.epoch) <= 0 || msg.Epoch.Tie != tie(m.self) || msg.TTL <= 0 {
		return m.invalid(msg, "not an epoch of ours")
	}
	if len(msg.Path) > 0 && !slices.Contains(msg.Path, m.self) {
		return m.invalid(msg, "we are no voter")
	}
	if !m.takesOver(msg.Epoch) {
		return m.stale(msg, "we said that we are not the root")
	}
	if b := m.ballot; b != nil && b.epoch.Number >= msg.Epoch.Number {
		return m.stale(msg, "our vote is another's since")
	}
	m.grants = msg.Number
	m.setTTL(msg.TTL)
	m.parent = nil
	m.takeOffice(msg)
	m.adoptSettings(msg.Settings)
	m.takeSessions(msg)
	m.takeTokens(msg)
	m.becomeRoot(msg.Epoch)
	for _, l := range m.sessions {
		m.nextLapse = min(m.nextLapse, l.deadline)
	}
	m.beacon.number++
	m.beacon.members = uint32(len(m.sessions) + 1)
	m.sendBeacons()
	if m.reign() != nil {
		m.lead()
	}
	for _, e := range m.liveEntries() {
		if e.state == served && !m.isOut(e) {
			m.ungrant(e) // a former root made its token anew
		}
	}
	m.serveTries()
	for _, r := range m.resources {
		if r.tok.phase == kept {
			m.passUp(r, r.tok.returned)
		}
		if r.tok.phase == below {
			m.recover(r) // on a way that we may not know, or lost, and the old root was told or about to be
		}
		m.serve(r)
	}
	if m.departing {
		m.resign()
	}
	return nil
}

func (m *Machine) takeSessions(msg *protocol.Message) {
	m.roll = &roll{lastSession: m.session.number}
	for _, s := range msg.Sessions {
		m.lastSession = max(m.lastSession, s.Number)
		m.addSession(&memberSession{
			node: s.Node, number: s.Number, priority: s.Priority, parent: s.Parent.ID,
			asked:    askedUnsaid,                           // who asks us for a session has left the old root, and takes no answer of it
			deadline: m.now + m.grace, beats: math.MaxUint8, // it was a member before us
		})
	}
}

// takeTokens takes over all tokens, and the fences. One that the old root does not
// name was never asked for there.
func (m *Machine) takeTokens(msg *protocol.Message) {
	m.fences = max(m.fences, msg.Fences.Next)
	for _, ts := range msg.Tokens {
		m.fences = max(m.fences, ts.Fence)
	}
	unknown := slices.Clone(m.resources)
	for _, ts := range msg.Tokens {
		r := m.resource(ts.Resource)
		unknown = slices.DeleteFunc(unknown, func(o *resource) bool { return o == r })
		m.takeToken(r, ts, msg.From)
	}
	for _, r := range unknown {
		r.tok.phase = home
	}
}

// takeToken takes over one token from the old root.
func (m *Machine) takeToken(r *resource, ts protocol.TokenState, from protocol.Node) {
	t := &r.tok
	t.next, t.back = max(t.next, ts.Fence), protocol.Never
	switch {
	case !ts.Out, ts.Grant == t.grant && t.phase == away && t.up && t.passed != nil && *t.passed == from && len(ts.Path) > 0:
		// At home; or we passed it up, and the old root will not take it any more.
		t.phase = home
		if ts.Grant.Compare(t.grant) > 0 {
			t.grant = ts.Grant
		}
	case ts.Grant == t.grant && t.phase == away: // passed to a child that took it elsewhere
		t.phase, t.down = below, nil
	case ts.Grant != t.grant: // it went another way
		t.grant, t.target, t.phase, t.down = ts.Grant, ts.Target, below, nil
		t.passed, t.up = nil, false // what we did with an older grant does not count
		if len(ts.Path) > 0 {
			first := ts.Path[0]
			t.passed = &first
		}
	}
}
