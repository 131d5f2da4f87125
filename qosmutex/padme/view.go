package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/protocol"
)

// A view is who may be the root, and by whose votes: docs/lock-protocol.md,
// "Views". The root acts only under its lease, which a majority of its voters confirm. When
// the lease has run out, the voters elect the next root among themselves.

// electorate is a set of voters. The root that names it numbers it within its
// epoch; of two, a voter goes by the newer one.
type electorate struct {
	epoch   protocol.Epoch
	version uint64
	voters  []protocol.Node // the most important first, as they ranked when they were named
}

// compare orders electorates by age.
func (v *electorate) compare(epoch protocol.Epoch, version uint64) int {
	if c := v.epoch.Compare(epoch); c != 0 {
		return c
	}
	return cmp.Compare(v.version, version)
}

// ballot is what a voter stands by. A restarted process has none: it is no voter
// until it is named again.
type ballot struct {
	of     electorate     // the newest known
	epoch  protocol.Epoch // the newest followed or voted for; never two of one Number
	root   protocol.Node  // of epoch, or who would be
	until  protocol.Time  // until then we vote for nobody but root
	fences uint64         // no fence was handed out at or above this
	standing
	reign *reign // as the root: who has confirmed us; else nil
	tally tally
}

// tally counts what only voters do.
type tally struct {
	views, adopted uint64
	sent           [protocol.KindVote - protocol.KindLead + 1]uint64
}

// entrust notes that root alone decides, from epoch e on. Who ever knew of voters must
// not forget that they are not those any more: somebody may be back who still counts
// on them, and on us.
func (m *Machine) entrust(e protocol.Epoch, root protocol.Node) {
	b := m.ballot
	if b == nil {
		return
	}
	b.of = electorate{e, 1, []protocol.Node{root}}
	b.epoch, b.root, b.standing, b.reign = e, root, standing{}, nil
}

// leaseSpan is how long a root acts on a majority's confirmation. It is shorter
// than a session, so that a new root is there before the sessions of its
// predecessor have run out and holds go on.
func (m *Machine) leaseSpan() protocol.Duration { return m.timing.TTL / 2 }

// promiseSpan is a lease on a voter's clock, by which it may be longer.
func (m *Machine) promiseSpan() protocol.Duration {
	t := m.timing
	t.TTL = m.leaseSpan()
	return t.Grace()
}

// quorum is what a majority of voters has reached: the median of value, the lower
// one if there are two.
func quorum[T cmp.Ordered](voters []protocol.Node, value func(protocol.Node) T) T {
	return sorted(voters, value)[(len(voters)-1)/2]
}

// half is what half of the voters has reached, the bigger half of an odd number:
// enough to keep a majority from electing another, since they have one in common.
func half[T cmp.Ordered](voters []protocol.Node, value func(protocol.Node) T) T {
	return sorted(voters, value)[len(voters)/2]
}

func sorted[T cmp.Ordered](voters []protocol.Node, value func(protocol.Node) T) []T {
	values := make([]T, 0, len(voters))
	for _, n := range voters {
		values = append(values, value(n))
	}
	slices.Sort(values)
	return values
}

// farAhead reports whether the number of an epoch is further ahead than any root can
// have come: believed, it would leave no room for epochs to come.
func (m *Machine) farAhead(number uint64) bool {
	return number > m.epoch.Number && number-m.epoch.Number > maxEpochJump
}

// votes reports whether we are one of several voters.
func (m *Machine) votes() bool {
	b := m.ballot
	return b != nil && len(b.of.voters) > 1 && slices.Contains(b.of.voters, m.self)
}

// onLead follows the root for another lease.
func (m *Machine) onLead(msg *protocol.Message) error {
	b := m.ballot
	switch {
	case msg.Epoch.Tie != tie(msg.From) || msg.TTL <= 0 || msg.TTL > maxTTL || msg.Fences.End > maxFence:
		return m.invalid(msg, "not a root")
	case len(msg.Path) == 0 || len(msg.Path) > mostVoters+1: // one more while the heir of the root becomes one
		return m.invalid(msg, "no voters, or too many")
	case m.role == protocol.Root || m.under != "":
		return m.stale(msg, "we do not vote")
	case msg.Epoch.Compare(m.epoch) < 0,
		b != nil && (msg.Epoch.Number < b.epoch.Number || b.of.compare(msg.Epoch, msg.Number) > 0):
		return m.stale(msg, "an old epoch or electorate")
	}
	if b == nil {
		b = &ballot{}
		m.ballot = b
	}
	if b.of.compare(msg.Epoch, msg.Number) < 0 {
		b.of = electorate{msg.Epoch, msg.Number, slices.Clone(msg.Path)}
	}
	b.epoch, b.root = msg.Epoch, msg.From
	b.fences = max(b.fences, msg.Fences.End)
	m.setTTL(msg.TTL)
	b.until = m.now + m.promiseSpan()
	b.standing = standing{}
	m.adoptEpoch(msg.Epoch, msg.From)
	m.forgetHandover()
	yes := m.emit(protocol.KindPledge, msg.From)
	yes.Sent, yes.Number, yes.Fences = msg.Sent, msg.Number, msg.Fences
	return nil
}

// adoptEpoch goes over to a newer epoch, if it is one. With a new view begins a
// new account: what was granted in the one before and has not come yet is not
// accepted any more, so every request whose grant is under way waits again.
func (m *Machine) adoptEpoch(e protocol.Epoch, root protocol.Node) {
	if e.Compare(m.epoch) <= 0 {
		return
	}
	turned := e.View() > m.epoch.View()
	orphaned := turned && m.parent != nil && m.parent.peer == m.root
	m.turn(e, root)
	if orphaned { // the old root has most likely ended
		m.orphan()
	}
	if turned && m.session.number != 0 {
		m.beat()
	}
}

// turn goes over to a newer epoch, with our parent if we have one.
func (m *Machine) turn(e protocol.Epoch, root protocol.Node) {
	turned := e.View() > m.epoch.View()
	m.epoch, m.root = e, root
	m.forgetHandover()
	if !turned {
		return
	}
	m.reported, m.session.alone = false, false
	m.forgetGrants()
	if m.parent != nil {
		m.nameAgain()
	}
}

// forgetGrants lets all requests wait again whose grant is of an earlier view. A
// hold goes on.
func (m *Machine) forgetGrants() {
	for _, r := range m.resources {
		if r.tok.phase != using {
			r.tok.bind(r.tok.grant)
		}
	}
	for _, e := range m.liveEntries() {
		if e.state == served {
			m.wait(e)
		}
	}
}

// old reports whether a grant is of an earlier view.
func (m *Machine) old(g protocol.Grant) bool { return g.Epoch.View() < m.epoch.View() }

// viewTimers does what is due of confirmation and election.
func (m *Machine) viewTimers() {
	if m.now >= m.standAt() {
		m.stand()
	}
	if rg := m.reign(); rg != nil {
		if m.now >= rg.next {
			m.lead()
		}
		if m.inheriting() && m.now >= rg.inherit {
			m.inherited()
		}
	}
}

// viewWake is when viewTimers has something to do.
func (m *Machine) viewWake() protocol.Time {
	at := m.standAt()
	if rg := m.reign(); rg != nil {
		at = min(at, rg.next)
		if m.inheriting() {
			at = min(at, rg.inherit)
		}
	}
	return at
}
