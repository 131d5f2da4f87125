package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// recovery is the root's search for a token that may be lost (PADME §3.3; cloud
// paper, "targeted recovery"). It follows the way the token was sent, asking
// each custodian what became of the grant; where the way breaks off at a
// participant that no longer lives, or that does not answer soon, it asks all who can
// have the grant. Each answer but "holding it" binds its sender not to enter on the
// grant any more, for good, so a search never starts over: it ends when all who can
// have the grant have answered, or their sessions have ended.
//
// Those are the members whose session is older than the grant, see [Machine.onBeatAck].
// Nobody joins them, so a search ends within a grace and two heartbeats, whoever comes,
// goes or dies meanwhile, unless somebody holds on that grant.
type recovery struct {
	all        bool            // everybody who can have the grant is asked; else one after the other
	pending    []protocol.Node // asked, and have not answered or are holding, in order
	answered   []protocol.Node // never enter on the grant
	until      protocol.Time   // unless all: when to ask everybody; of a recall: until when a try waits for it
	unreported bool            // nobody is asked: see inherit
	recall     bool            // it is not lost, but retained: see retain
}

// recover starts the search for the token of r, unless it is under way.
func (m *Machine) recover(r *resource) {
	t := &r.tok
	if t.phase != below || t.recovery != nil {
		return
	}
	m.counters.Syncs++
	t.recovery = &recovery{}
	if t.sole() || t.passed == nil { // nil: taken over from another root
		m.askAll(r)
	} else {
		m.follow(r, *t.passed)
	}
}

// doubt starts that search, too: somebody says that the grant is over. If it is under way, who
// has answered that it is inside is asked again at once.
func (m *Machine) doubt(r *resource) {
	t := &r.tok
	if rec := t.recovery; rec != nil && t.holder != nil && slices.Contains(rec.pending, t.holder.entry.ID.Node) {
		m.sync(r, t.holder.entry.ID.Node)
	}
	m.recover(r)
}

// follow asks the next custodian on the way. All before it have answered.
func (m *Machine) follow(r *resource, n protocol.Node) {
	rec := r.tok.recovery
	switch {
	case n == m.self || slices.Contains(rec.answered, n):
		m.askAll(r) // the way leads back
	case m.mayAnswer(n):
		rec.pending = append(rec.pending[:0], n)
		rec.until = m.now + 2*m.timing.Hop
		m.sync(r, n)
	case n == r.tok.target.Node:
		m.regenerate(r) // the end of the way, and it lives no longer
	default:
		m.askAll(r)
	}
}

// mayAnswer reports whether n has a session, or may have one that we have not heard of
// yet. A member that said goodbye neither enters on a grant nor passes it on any more:
// it has ended. It need not have handed on all that it had.
func (m *Machine) mayAnswer(n protocol.Node) bool {
	return !m.gone(n) || m.inheriting() && m.sessionOf(n) == nil
}

// gone reports whether n has no session, or only one that it said goodbye under.
func (m *Machine) gone(n protocol.Node) bool {
	s := m.sessionOf(n)
	return s == nil || s.goodbye
}

// askAll asks every member that can have the grant and has not answered. If only the
// target can enter on it, the others need not be asked: whoever has the token on its way
// can do nothing with it but send it home, where it is stale by then.
func (m *Machine) askAll(r *resource) {
	t := &r.tok
	rec := t.recovery
	rec.all = true
	rec.pending = rec.pending[:0]
	for _, s := range m.members {
		if !s.goodbye && t.mayHave(s) && !slices.Contains(rec.answered, s.node) {
			rec.pending = append(rec.pending, s.node)
			m.sync(r, s.node)
		}
	}
	m.concludeIfDone(r)
}

// continueSearches goes on with the searches that wait for the owner of s, which has expired or
// said goodbye: it has no token any more. One that it had passed on is with another
// member, which is asked.
func (m *Machine) continueSearches(s *memberSession) {
	m.touch(protocol.Any)
	for _, r := range m.resources {
		rec := r.tok.recovery
		if rec == nil || !slices.Contains(rec.pending, s.node) {
			continue
		}
		rec.recall = false // it is lost
		if !rec.all {
			m.follow(r, s.node)
			continue
		}
		rec.pending = without(rec.pending, s.node)
		m.concludeIfDone(r)
	}
}

// concludeIfDone regenerates the token if all who can have it have answered. While we
// inherit we do not know who they are, unless it is the target alone: inherited goes on.
func (m *Machine) concludeIfDone(r *resource) {
	t := &r.tok
	rec := t.recovery
	if rec == nil || !rec.all || len(rec.pending) > 0 {
		return
	}
	if !m.inheriting() || t.sole() && !t.direct() && slices.Contains(rec.answered, t.target.Node) {
		m.regenerate(r)
	}
}

func without(list []protocol.Node, n protocol.Node) []protocol.Node {
	return slices.DeleteFunc(list, func(o protocol.Node) bool { return o == n })
}

func (m *Machine) sync(r *resource, to protocol.Node) {
	msg := m.emit(protocol.KindSync, to)
	msg.ID, msg.Resource, msg.Grant = r.tok.target, r.q.resource, r.tok.newestNumbered()
	if r.tok.direct() {
		msg.Flags = protocol.FlagDirect
	}
	m.touch(r.q.resource)
}

// bind makes sure that we enter on no grant up to g, nor pass one down.
func (m *Machine) bind(g protocol.Grant) {
	if m.bound.Compare(g) >= 0 {
		return
	}
	m.bound = g
	for _, r := range m.resources {
		r.tok.bind(g)
	}
}

// onSync says what became of a grant here, and stands by it.
func (m *Machine) onSync(msg *protocol.Message) error {
	newcomer := m.settings.Version == 0 && m.find(msg.Resource) == nil // never had a parent, so no token either
	if !newcomer && !single(msg.Resource) {
		return m.invalid(msg, "no such resource")
	}
	if msg.From != m.root || msg.Grant.Epoch.Compare(m.epoch) > 0 {
		return m.stale(msg, "not our root, or an epoch to come")
	}
	if m.mayGoOn(msg.Resource) {
		return m.stale(msg, "it is not known yet whether a hold of the process before goes on")
	}
	answer := m.emit(protocol.KindReport, msg.From)
	answer.ID, answer.Resource, answer.Grant, answer.Verdict = msg.ID, msg.Resource, msg.Grant, protocol.VerdictNever
	if newcomer {
		m.bind(msg.Grant)
		return nil
	}
	t := &m.resource(msg.Resource).tok
	asked := t.grant == msg.Grant || msg.Flags&protocol.FlagDirect != 0 && t.grant.Epoch == msg.Grant.Epoch && t.grant.Compare(msg.Grant) < 0
	switch {
	case asked && t.phase == using:
		answer.Verdict, answer.Priority, answer.Client = protocol.VerdictHolding, t.inside.priority, t.inside.client
		answer.Entries = []protocol.Entry{{ID: t.inside.id, Fence: t.fence}}
		if t.retain {
			m.recalled(t)
		}
		if msg.Flags&protocol.FlagDirect != 0 {
			t.drop(msg.Grant) // the others answer that they refuse the token
		}
		return nil
	case t.grant.Compare(msg.Grant) < 0 && msg.Grant.Compare(m.forgotten) <= 0: // perhaps it was here and is forgotten
		answer.Verdict, answer.PassedTo = protocol.VerdictPassed, m.self
	case !asked:
	case t.phase == kept:
		t.phase, t.passed = away, nil // given up: somebody waits for it, and if we have no parent we may find none for long
	case t.passed != nil:
		answer.Verdict, answer.PassedTo = protocol.VerdictPassed, *t.passed
	}
	t.bind(msg.Grant)
	return nil
}

func (m *Machine) onReport(msg *protocol.Message) error {
	r := m.find(msg.Resource)
	if m.role != protocol.Root || r == nil || r.tok.phase != below || r.tok.newestNumbered() != msg.Grant {
		return m.stale(msg, "not asked for")
	}
	rec := r.tok.recovery
	if rec == nil || !slices.Contains(rec.pending, msg.From) {
		return m.stale(msg, "not asked for")
	}
	r.tok.answered(msg)
	m.touch(r.q.resource)
	if msg.Verdict == protocol.VerdictHolding { // asked again with the next heartbeat, for it may get lost yet
		if !rec.recall {
			rec.until = m.now + m.heartbeat() + 2*m.timing.Hop
		}
		return nil
	}
	m.servedBy(&r.tok, msg.Clock)
	rec.pending = without(rec.pending, msg.From)
	rec.answered = append(rec.answered, msg.From)
	switch {
	case rec.all:
		m.concludeIfDone(r)
	case msg.Verdict == protocol.VerdictPassed && msg.From != r.tok.target.Node:
		m.follow(r, msg.PassedTo)
	default:
		// It was on the link to this one, which refuses it from now on. Or this is the end of the way
		// down: whoever it passed the token on to has not passed it down, and so Uses it no more.
		m.regenerate(r)
	}
	return nil
}

// regenerate makes a new token of r. The old grant is dead: its number is
// refused everywhere from now on. The request that it was for is served again if
// it still lives. If it was served after all, the next grant comes back unused.
func (m *Machine) regenerate(r *resource) {
	t := &r.tok
	if t.recovery == nil || !t.recovery.recall {
		m.counters.Regenerated++
	}
	m.touch(r.q.resource)
	t.unschedule()
	t.recovery, t.phase, t.down = nil, home, nil
	switch e := m.requests.get(t.target); {
	case e == nil || e.state != served:
	case e.from != nil && !m.mayAnswer(e.id.Node):
		m.remove(e)
	default:
		m.wait(e)
	}
	m.cameHome(r)
	m.serve(r)
	m.serveQueue(&m.any) // the request may have been for any
}

// tokensBelow looks after the tokens that were passed to a child whose link is
// gone: the root looks for them, and anybody else has it look.
func (m *Machine) tokensBelow(l *link) {
	for _, r := range m.resources {
		if t := &r.tok; t.phase == below && t.down == l {
			t.down = nil
			t.bind(t.grant)
			if m.role == protocol.Root {
				m.recover(r)
			} else {
				m.sendReceipt(r)
			}
		}
	}
}

// sendReceipt tells the root that a token may be lost below us, with a Release
// that is marked as a repetition: it is not the token, but makes the root ask.
func (m *Machine) sendReceipt(r *resource) {
	if m.parent == nil {
		return // resumeUpward will
	}
	t := &r.tok
	m.sendRelease(&protocol.Message{Flags: protocol.FlagRepeated, ID: t.target, Resource: r.q.resource, Grant: t.grant, Fences: t.fences})
	t.phase = away
}

// retrySyncs repeats unanswered questions, once a heartbeat. If only one custodian was
// asked, and has had time to answer, all are asked now. If they were asked only after its
// session expired, each that died meanwhile would add a grace to the search.
func (m *Machine) retrySyncs() {
	for _, r := range m.resources {
		rec := r.tok.recovery
		switch {
		case rec == nil || rec.unreported:
		case !rec.all && m.now >= rec.until:
			m.askAll(r)
		default:
			for _, n := range rec.pending {
				m.sync(r, n)
			}
		}
	}
}
