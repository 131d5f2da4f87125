package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// recovery is the root's search for a token that may be lost (PADME §3.3; cloud
// paper, "targeted recovery"). It follows the way the token was sent, asking
// each custodian what became of the grant; where the way breaks off at a
// participant that no longer lives, it asks everybody. Each answer binds its
// sender not to enter on the grant any more, so that a new one can be made once
// all who may have had the old one have answered or lapsed.
type recovery struct {
	all      bool
	pending  []protocol.Node // asked and not answered yet, in order
	answered []protocol.Node
	again    protocol.Time // when to begin anew; the token may have moved since
	holder   *holder       // who answered last that it is inside; nil: nobody has. For Status only
	mislaid  bool          // nobody is asked: see inherit
}

// recover starts or restarts the search for the token of r.
func (m *Machine) recover(r *resource) {
	t := &r.tok
	if t.phase != below || t.recovery != nil && t.recovery.mislaid {
		return
	}
	if t.recovery == nil {
		m.count().syncs++
	}
	t.recovery = &recovery{again: m.now + m.grace, holder: t.recovery.foundBefore()}
	switch {
	case t.down != nil:
		m.follow(r, t.down.peer)
	case t.passed != nil:
		m.follow(r, *t.passed)
	default:
		m.askAll(r) // taken over from another root
	}
}

// follow asks the next custodian on the way.
func (m *Machine) follow(r *resource, n protocol.Node) {
	rec := r.tok.recovery
	switch {
	case n == m.self:
		m.askAll(r) // it says that the token is on its way to us
	case slices.Contains(rec.answered, n):
		m.regenerate(r) // two neighbours each passed it to the other: both are bound
	case m.sessionOf(n) != nil || m.inheriting(): // then it may have a session that we have not heard of yet
		rec.pending = append(rec.pending[:0], n)
		m.sync(r, n)
	case n == r.tok.target.Node:
		m.regenerate(r) // the end of the way, and it lives no longer
	default:
		m.askAll(r)
	}
}

// recoverFrom goes on with the search for the token of r when the session of n has
// lapsed. If all others have answered that they do not have it, nobody has: n lost it
// with its session, and nobody can give it to n any more, who may hear no question
// and begin one session after the other.
func (m *Machine) recoverFrom(r *resource, n protocol.Node) {
	rec := r.tok.recovery
	if rec == nil || !rec.all || len(rec.pending) != 1 || rec.pending[0] != n || m.inheriting() {
		m.recover(r)
		return
	}
	m.regenerate(r)
}

// askAll asks every member that has not answered.
func (m *Machine) askAll(r *resource) {
	rec := r.tok.recovery
	rec.all = true
	rec.pending = rec.pending[:0]
	for _, s := range m.sessions {
		if !slices.Contains(rec.answered, s.node) {
			rec.pending = append(rec.pending, s.node)
			m.sync(r, s.node)
		}
	}
	m.concludeIfDone(r)
}

// concludeIfDone makes the token anew if all who live have answered. While we inherit
// we do not know who lives; the search begins again after that.
func (m *Machine) concludeIfDone(r *resource) {
	if rec := r.tok.recovery; rec != nil && rec.all && len(rec.pending) == 0 && !m.inheriting() {
		m.regenerate(r)
	}
}

func (m *Machine) sync(r *resource, to protocol.Node) {
	msg := m.emit(protocol.KindSync, to)
	msg.ID, msg.Resource, msg.Grant = r.tok.target, r.q.resource, r.tok.grant
}

// onSync says what became of a grant here, and stands by it.
func (m *Machine) onSync(msg *protocol.Message) error {
	newcomer := m.settings.Version == 0 // never had a parent, so no token either
	if !newcomer && !m.known(msg.Resource) {
		return m.invalid(msg, "no such resource")
	}
	if msg.From != m.root || msg.Grant.Epoch.Compare(m.epoch) > 0 {
		return m.stale(msg, "not our root, or an epoch to come")
	}
	answer := m.emit(protocol.KindReport, msg.From)
	answer.ID, answer.Resource, answer.Grant = msg.ID, msg.Resource, msg.Grant
	if newcomer {
		answer.Verdict = protocol.VerdictNever
		return nil
	}
	r := m.resource(msg.Resource)
	t := &r.tok
	if t.grant == msg.Grant && t.phase == using {
		answer.Verdict = protocol.VerdictHolding
		m.nameHolder(answer, r)
		return nil
	}
	answer.Verdict = protocol.VerdictNever
	if t.grant == msg.Grant && t.phase == kept {
		t.phase, t.passed = away, nil // given up: we may find no parent for long, and all would wait for us
	} else if t.grant == msg.Grant && t.passed != nil {
		answer.Verdict, answer.Peer = protocol.VerdictPassed, *t.passed
	}
	if t.bound.Compare(msg.Grant) < 0 {
		t.bound = msg.Grant
	}
	return nil
}

func (m *Machine) onReport(msg *protocol.Message) error {
	r := m.find(msg.Resource)
	if m.role != protocol.Root || r == nil || r.tok.grant != msg.Grant || r.tok.phase != below {
		return m.stale(msg, "not asked for")
	}
	rec := r.tok.recovery
	if rec == nil || !slices.Contains(rec.pending, msg.From) {
		return m.stale(msg, "not asked for")
	}
	rec.pending = slices.DeleteFunc(rec.pending, func(n protocol.Node) bool { return n == msg.From })
	rec.found(msg, r.tok.next)
	if msg.Verdict == protocol.VerdictHolding {
		rec.pending = rec.pending[:0] // found; look again later, for it may get lost yet
		rec.all = false
		rec.answered = rec.answered[:0]
		return nil
	}
	rec.answered = append(rec.answered, msg.From)
	switch {
	case rec.all:
		m.concludeIfDone(r)
	case msg.Verdict == protocol.VerdictPassed:
		m.follow(r, msg.Peer)
	default:
		m.regenerate(r) // it was on the link to this one, which refuses it from now on
	}
	return nil
}

// regenerate makes the token of r anew. The old grant is dead: its number is
// refused everywhere from now on. The request that it was for is served again if
// it still lives.
func (m *Machine) regenerate(r *resource) {
	t := &r.tok
	m.count().regenerated++
	t.recovery, t.phase, t.down = nil, home, nil
	m.ungrant(m.requests.get(t.target))
	m.serve(r)
	m.serveQueue(m.any) // the request may have been for any
}

// ungrant lets a request that was granted wait again, now that its token came home
// by another way than its Release. If it was served after all, the next grant comes
// back unused. nil is no request.
func (m *Machine) ungrant(e *entry) {
	switch {
	case e == nil || e.state != served:
	case e.from != nil && m.sessionOf(e.id.Node) == nil:
		m.remove(e)
	default:
		m.wait(e)
		if e.try {
			m.serveTry(e)
		}
	}
}

// tokensBelow looks after the tokens that were passed to a child whose link is
// gone: the root looks for them, and anybody else has it look.
func (m *Machine) tokensBelow(l *link) {
	for _, r := range m.resources {
		if t := &r.tok; t.phase == below && t.down == l {
			t.down, t.bound = nil, t.grant
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
	msg := m.emitOn(m.parent, protocol.KindRelease)
	msg.Flags |= protocol.FlagRepeated
	msg.ID, msg.Resource, msg.Grant, msg.Fences = t.target, r.q.resource, t.grant, t.fences
	m.commit(m.parent, msg)
	t.phase = away
}

// retrySyncs repeats questions that were not answered, once a heartbeat.
func (m *Machine) retrySyncs() {
	for _, r := range m.resources {
		rec := r.tok.recovery
		switch {
		case rec == nil || rec.mislaid:
		case m.now >= rec.again:
			m.recover(r)
		default:
			for _, n := range rec.pending {
				m.sync(r, n)
			}
		}
	}
}
