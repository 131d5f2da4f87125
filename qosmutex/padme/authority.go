package padme

import (
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// authority is what entitles this participant to act as the root: the record of the
// topic names it, under a lease that it has been told of (docs/lock-protocol.md,
// "Who is the root"). Who writes that record, and when, is not this machine's business.
type authority struct {
	until    protocol.Time    // then we stop, unless the lease is extended before
	renewed  protocol.Time    // no session may outlive this by more than a TTL
	renewal  protocol.Renewal // that until rests on
	ceiling  uint64           // we hand out no fence at or above this
	inherit  protocol.Time    // until then a token that nobody reports may be anywhere; 0: all are known
	invented bool             // somebody goes by a grant of this term that we never gave
	yieldsTo protocol.Node    // a record that names it the root is about to be written: we grant and answer nothing
	awaited  []protocol.Node  // inherit: who may hold by the word of the root before, and has not shown itself
	unseen   protocol.Time    // inherit: until then somebody may hold of whom the root before did not know either
	callAt   protocol.Time    // awaited: when to offer ourselves to them again
	before   protocol.Node    // the root that we followed before, whose Handover counts
	unheard  protocol.Time    // inherit: nothing that we have sent since then has come back; 0: it need not
}

// acting reports whether we may grant, answer heartbeats and change settings.
func (m *Machine) acting() bool { return m.role == protocol.Root && m.authority.yieldsTo.IsZero() }

// heldUntil is until when our holds are valid if the lease is not extended any more. As those
// of a member, they need a heartbeat that came back: where each participant has a register of
// its own, a root that nobody hears is succeeded a TTL after its last word.
func (m *Machine) heldUntil() protocol.Time {
	return after(min(m.authority.renewed, m.heardItself()), m.timing.TTL)
}

// heardSince reports whether a heartbeat to ourselves has come back that we sent at an instant, which has
// come, or later: only then were others silent until then, and we were not cut off. If none was sent
// since then, it sends one.
func (m *Machine) heardSince(at protocol.Time) bool {
	if m.heardItself() >= at {
		return true
	}
	if m.called < at {
		m.beat()
	}
	return false
}

// heardBy is when to look at what is over at an instant, if heardSince tells the root whether it is: not
// while that heartbeat is under way.
func (m *Machine) heardBy(at protocol.Time) protocol.Time {
	return when(m.role != protocol.Root || m.called < at || m.heardItself() >= at, at)
}

// heardItself is when a root that others may succeed sent the newest message that came back.
func (m *Machine) heardItself() protocol.Time {
	if m.isFixedRoot || !m.candidate {
		return protocol.Never
	}
	return m.echo
}

// mayGive reports whether a grant of r may be given now.
func (m *Machine) mayGive(r *resource) bool {
	if !m.acting() {
		return false
	}
	if r.tok.next+2*maxDepth > m.authority.ceiling {
		m.out.WantCeiling = max(m.out.WantCeiling, r.tok.next+fencesAhead)
		return false
	}
	return true
}

// topFence is above every range that was handed out.
func (m *Machine) topFence() uint64 {
	top := m.fences
	for _, r := range m.resources {
		top = max(top, r.tok.next)
	}
	return top
}

// needFences asks for fences before they run out, of which all below top are handed out.
func (m *Machine) needFences(top uint64) {
	if top+fencesAhead/2 > m.authority.ceiling {
		m.out.WantCeiling = max(m.out.WantCeiling, top+fencesAhead)
	}
}

// begin is the first Step: a root that nobody else can succeed (Config.Root) has a lease
// for ever, everybody else looks for a root.
func (m *Machine) begin() {
	m.beacon.next = m.now + m.heartbeat()
	if m.isFixedRoot {
		m.rule(&protocol.Lease{
			Term: 1, Until: protocol.Never, Renewed: protocol.Never, Heard: m.now - m.grace(),
			TTL: m.timing.TTL, Fences: protocol.Fences{End: maxFence}, Settings: m.settings,
		})
		return
	}
	m.startJoin(0)
	m.beat() // a candidate that has not heard itself yet can do nothing
}

// appointed makes us the root of a new term.
func (m *Machine) appointed(in *protocol.Lease) error {
	switch {
	case m.isFixedRoot || in.TTL <= 0 || in.Fences.Next >= maxFence:
		return m.badInput("not a lease that we can have")
	case in.Term <= m.epoch.Number || m.now >= in.Until:
		return m.badInput("a term or lease that is over")
	}
	if m.role == protocol.Root {
		m.stepDown()
	}
	if m.parent != nil {
		m.emitOn(m.parent, protocol.KindDetach)
	}
	m.rule(in)
	return nil
}

// rule begins a term. We know nothing of the tokens, unless the former root is long over
// or tells us (see onHandover): members report what they hold with their next heartbeats,
// and such a hold goes on at once. All other tokens may be with somebody until the
// sessions of the last term are over, for no session outlives the last renewal of its
// root's lease by more than a TTL.
func (m *Machine) rule(in *protocol.Lease) {
	before, wanted, early := m.root, m.wanted, m.early
	alone := m.session.number == 0 && m.session.asked == 0 // no other root has let anybody in, as far as we know
	m.counters.Terms++
	m.outlast(in.TTL)
	m.fences = max(m.fences, in.Fences.Next)
	m.domain = in.Register
	m.echo = max(m.echo, in.Renewed) // who was appointed has heard itself
	m.authority = authority{until: in.Until, renewed: in.Renewed, renewal: in.Renewal, ceiling: in.Fences.End}
	m.role, m.epoch, m.root, m.parent = protocol.Root, protocol.Epoch{Number: in.Term, Tie: m.self.Tie()}, m.self, nil
	m.depth, m.ancestors = 0, m.ancestors[:0]
	m.join, m.session, m.early, m.former = nil, session{asked: m.session.asked}, nil, nil
	m.reported, m.grants = false, 0
	m.roster = roster{lastSession: in.Term << 24, nextExpiry: protocol.Never} // no number twice
	m.outranks = 0
	m.out.Changed = true
	if m.now < in.Heard+m.grace() {
		m.authority.inherit = in.Heard + m.grace()
		m.authority.before = before
		if in.Unheard {
			m.authority.unheard = m.now
		}
	}
	for _, r := range m.resources {
		m.takeToken(r)
	}
	m.forgetGrants()
	m.putInForce(&in.Settings)
	if resumed := m.resume(in.Held, alone); resumed && in.Known && m.inheriting() {
		m.await(in.Members)
	}
	if wanted != nil {
		m.propose(wanted)
	}
	if early != nil {
		_ = m.onHandover(early) // it may be of another term or root
	}
	m.serveAll()
	m.beacon.number = 1
	m.beacon.members = uint32(len(m.members) + 1)
	m.sendBeacons()
	m.offer(protocol.Node{}) // whoever lost the old root need not ask
	m.beat()                 // which comes back after that was heard
	if m.departing {
		m.resign()
	}
}

// takeToken has the token of r at home, at the beginning of a term, unless we are inside
// or somebody else may have it.
func (m *Machine) takeToken(r *resource) {
	t := &r.tok
	t.unschedule()
	switch {
	case t.phase == using:
		if t.unconfirmed() { // the root that granted it can end it no more
			m.confirmHold(t)
		}
		t.toTarget = false // the target may be behind who passed us the Reply by now: it is granted again
	case m.inheriting():
		m.awaitReport(r)
	default:
		t.phase, t.down, t.recovery = home, nil, nil
	}
	t.next = max(t.next, m.fences)
}

// await ends the time in which tokens may be anywhere as soon as all who can have one
// have shown themselves.
func (m *Machine) await(members []protocol.Node) {
	a := &m.authority
	a.awaited = slices.DeleteFunc(slices.Clone(members), func(n protocol.Node) bool { return n == m.self || m.sessionOf(n) != nil })
	a.callAt = m.now + m.timing.JoinWait
	m.awaitedAll()
}

// awaitedAll ends the time in which tokens may be anywhere, unless somebody is awaited: now,
// or when the root before would have ended it.
func (m *Machine) awaitedAll() {
	if a := &m.authority; len(a.awaited) == 0 {
		a.inherit = min(a.inherit, max(m.now, a.unseen))
	}
}

// call offers us to the members that are awaited. All others wait for them, and they may
// have been without a connection so far, so it is done more often than heartbeats are sent.
func (m *Machine) call() {
	m.authority.callAt = m.now + m.timing.JoinWait
	m.offer(protocol.Node{})
}

// shown notes that a member of the term before has shown itself: it has named what it
// holds, or has nothing, and goes by our term, or has ended.
func (m *Machine) shown(n protocol.Node) {
	a := &m.authority
	if a.inherit == 0 || len(a.awaited) == 0 {
		return
	}
	a.awaited = without(a.awaited, n)
	m.awaitedAll()
}

// extended goes on with the lease, also after a yield of which nothing came.
func (m *Machine) extended(in *protocol.Lease) error {
	if m.role != protocol.Root || in.Term != m.epoch.Number || m.isFixedRoot {
		return m.badInput("not the lease of this term")
	}
	a := &m.authority
	a.until, a.renewed, a.renewal = max(a.until, in.Until), max(a.renewed, in.Renewed), in.Renewal
	a.ceiling = max(a.ceiling, in.Fences.End)
	if !a.yieldsTo.IsZero() {
		a.yieldsTo = protocol.Node{}
		m.out.Changed = true
	}
	m.serveAll() // it may have waited for fences
	return nil
}

// serveAll serves what had to wait.
func (m *Machine) serveAll() {
	if len(m.requests) == 0 {
		return
	}
	for _, r := range m.resources {
		m.serveAtHome(r)
	}
	for _, r := range m.resources { // only if no token at home would do
		m.recall(r)
	}
}

// refuseUndeclared refuses requests that were made before the settings in force were known.
// What is granted already goes on.
func (m *Machine) refuseUndeclared() {
	for _, e := range slices.Clone(m.requests) {
		if reason := m.undeclared(e.q.resource); reason != protocol.ReasonNone && e.state == waiting {
			m.refuse(e, reason)
		}
	}
}

// stepDown ends the term of a root whose lease is over, or that is dismissed. It is a
// member without a parent then, and its own holds go on as those of other members do:
// until TTL after its last renewal, if no later root takes them over before.
func (m *Machine) stepDown() {
	m.counters.Expiries++
	if m.departing {
		m.finish()
		return
	}
	m.becomeMember()
	if m.now >= m.session.until {
		m.expireOwn()
	}
}

// adoptEpoch goes over to a newer term, if it is one. What was granted in the one
// before and has not come yet is not accepted any more, so every request whose grant
// is under way waits again.
func (m *Machine) adoptEpoch(e protocol.Epoch, root protocol.Node) {
	if e.Compare(m.epoch) <= 0 {
		return
	}
	orphaned := m.parent != nil && m.parent.peer == m.root
	m.turn(e, root)
	if orphaned { // the old root has most likely ended
		m.orphan()
	}
}

// turn goes over to a newer term, with our parent if we have one.
func (m *Machine) turn(e protocol.Epoch, root protocol.Node) {
	m.epoch, m.root = e, root
	m.out.Changed = true
	m.reported = false
	m.beacon.number = 0 // the new root counts its beacons from 1
	m.forgetGrants()
	if m.parent != nil {
		m.nameAgain()
	}
}

// forgetGrants lets all requests wait again whose grant is of an earlier term. A
// hold goes on.
func (m *Machine) forgetGrants() {
	for _, r := range m.resources {
		t := &r.tok
		if t.phase != using {
			t.bind(t.grant)
		}
		if t.phase == kept && m.parent != nil {
			t.phase, t.passed = away, nil
		}
	}
	for _, e := range m.requests {
		if e.state == served {
			m.wait(e)
		}
	}
}

func (a *authority) write(w *canonical.Writer, c *core) {
	w.Flags(a.invented)
	w.Node(a.yieldsTo)
	w.Left(a.until)
	if a.renewed != protocol.Never {
		w.Age(a.renewed, c.timing.TTL)
	}
	w.Renewal(a.renewal)
	w.Named(canonical.SortFence, a.ceiling)
	if w.Is(a.inherit != 0) {
		w.Left(a.inherit)
		w.Node(a.before)
		w.Left(a.unseen)
		w.Flags(a.unheard != 0)
		if w.Nodes(a.awaited); len(a.awaited) > 0 {
			w.Left(a.callAt)
		}
	}
}
