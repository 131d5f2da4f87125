package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// reign is what a root with voters knows of their confirmation. A root without a
// reign is its own and only voter.
type reign struct {
	old       []protocol.Node // voters before the change under way; nil: none is
	confirmed bool            // majorities know the voters as they are
	started   bool            // we have, or had, a lease
	until     protocol.Time   // before that: our own holds go by the session that we had as a member
	inherit   protocol.Time   // until then, tokens that nobody names may be anywhere; 0: no longer
	next      protocol.Time   // when to ask for confirmation again
	fences    uint64          // below this they are ours to hand out
	heir      protocol.Node   // is to get a vote, so that it can succeed us; zero: nobody
	pledges   []*pledge
}

// pledge is what a voter has confirmed.
type pledge struct {
	node    protocol.Node
	sent    protocol.Time // when the newest question was sent that it answered
	version uint64        // of the voters that it knows
	fences  uint64
	gone    bool // left for good: it will never vote for another
}

// reservedFences is how far ahead of those handed out a root has fences confirmed.
const reservedFences = 1 << 20

// reign returns what confirms us as the root; nil: we do it alone, or are none.
func (m *Machine) reign() *reign {
	if m.ballot == nil {
		return nil
	}
	return m.ballot.reign
}

// alone reports whether nobody but us keeps us in office, and nobody is about to: when
// we die, nobody is elected.
func (m *Machine) alone() bool {
	rg := m.reign()
	return rg == nil || len(m.ballot.of.voters) == 1 && rg.old == nil && rg.heir.IsZero()
}

// former are the voters that have a say in the change under way, or nil. Where one of
// an even number is dropped, none has: a majority of the others has one in common with
// any majority of all, and of two the one that is dropped may be dead.
func (m *Machine) former() []protocol.Node {
	old := m.reign().old
	if len(old)%2 == 0 && len(old) > len(m.ballot.of.voters) {
		return nil
	}
	return old
}

// electors are those whose majority keeps us in office: the voters, while they
// change still the former ones, for a majority of the new ones may not know of it.
func (m *Machine) electors() []protocol.Node {
	if former := m.former(); former != nil {
		return former
	}
	return m.ballot.of.voters
}

func (m *Machine) pledgeOf(n protocol.Node) *pledge {
	rg := m.reign()
	for _, p := range rg.pledges {
		if p.node == n {
			return p
		}
	}
	p := &pledge{node: n}
	rg.pledges = append(rg.pledges, p)
	return p
}

// leaseEnd is when the root must stop unless it is confirmed again.
func (m *Machine) leaseEnd() protocol.Time {
	rg := m.reign()
	if rg == nil {
		return m.lease.sent + m.timing.TTL
	}
	voters, enough := m.electors(), quorum[protocol.Time]
	if rg.confirmed {
		enough = half
	}
	sent := enough(voters, func(n protocol.Node) protocol.Time {
		if n == m.self {
			return m.lease.sent
		}
		p := m.pledgeOf(n)
		if p.gone { // it agrees for ever; but somebody may found the topic anew
			return max(p.sent, m.lease.sent)
		}
		return p.sent
	})
	if len(voters) == 1 {
		return sent + m.timing.TTL
	}
	return sent + m.leaseSpan()
}

// termEnd is when the root must stop: at the end of its lease, or, as long as it was
// never confirmed, of the session that it had before.
func (m *Machine) termEnd() protocol.Time {
	if rg := m.reign(); rg != nil && !rg.started {
		return rg.until
	}
	return m.leaseEnd()
}

// acting reports whether we are the root and a majority has said so.
func (m *Machine) acting() bool {
	return m.role == protocol.Root && (m.reign() == nil || m.reign().started)
}

// mayGive reports whether a grant of r may be given now.
func (m *Machine) mayGive(r *resource) bool {
	return m.acting() && (m.reign() == nil || r.tok.next+2*maxDepth <= m.reign().fences)
}

// lead asks every voter to confirm us, and those that are to become or to stop
// being one.
func (m *Machine) lead() {
	b, rg := m.ballot, m.reign()
	rg.next = m.now + m.heartbeat()/2
	top := m.topFence() + reservedFences
	for _, n := range b.of.voters {
		m.leadTo(n, top)
	}
	for _, n := range rg.old {
		if !slices.Contains(b.of.voters, n) {
			m.leadTo(n, top)
		}
	}
	m.weigh()
}

// topFence is above every fence that we have handed out.
func (m *Machine) topFence() uint64 {
	top := m.fences
	for _, r := range m.resources {
		top = max(top, r.tok.next)
	}
	return top
}

func (m *Machine) leadTo(n protocol.Node, top uint64) {
	if n == m.self || m.pledgeOf(n).gone {
		return
	}
	msg := m.emit(protocol.KindLead, n)
	msg.Sent, msg.TTL, msg.Number, msg.Path = m.now, m.timing.TTL, m.ballot.of.version, m.ballot.of.voters
	msg.Fences = protocol.Fences{Next: top, End: top}
}

// onPledge takes a voter's confirmation.
func (m *Machine) onPledge(msg *protocol.Message) error {
	rg := m.reign()
	if m.role != protocol.Root || rg == nil || msg.Epoch != m.epoch || msg.Sent > m.now || msg.Number > m.ballot.of.version {
		return m.stale(msg, "not asked for")
	}
	if !slices.Contains(m.ballot.of.voters, msg.From) && !slices.Contains(rg.old, msg.From) {
		return m.stale(msg, "not a voter")
	}
	p := m.pledgeOf(msg.From)
	p.sent, p.version, p.fences = max(p.sent, msg.Sent), max(p.version, msg.Number), max(p.fences, msg.Fences.End)
	m.weigh()
	return nil
}

// weigh draws the conclusions from what the voters have confirmed.
func (m *Machine) weigh() {
	b, rg := m.ballot, m.reign()
	version := func(n protocol.Node) uint64 {
		if n == m.self || m.pledgeOf(n).gone {
			return b.of.version
		}
		return m.pledgeOf(n).version
	}
	former := m.former()
	if quorum(b.of.voters, version) == b.of.version && (former == nil || quorum(former, version) == b.of.version) {
		rg.confirmed, rg.old = true, nil
		rg.pledges = slices.DeleteFunc(rg.pledges, func(p *pledge) bool { return !slices.Contains(b.of.voters, p.node) })
	}
	rg.fences = quorum(m.electors(), func(n protocol.Node) uint64 {
		if n == m.self || m.pledgeOf(n).gone {
			return math.MaxUint64
		}
		return m.pledgeOf(n).fences
	})
	if !rg.started && m.now < m.leaseEnd() {
		rg.started = true
		m.startReign()
		return
	}
	for _, r := range m.resources {
		m.serve(r) // it may have waited for fences
	}
}

// startReign serves what had to wait until we were confirmed.
func (m *Machine) startReign() {
	m.serveTries()
	for _, r := range m.resources {
		m.serve(r)
	}
	if m.departing {
		m.resign()
	}
}

// adjustVoters brings the voters nearer to what they should be, by one at a time
// so that any two majorities have a voter in common, and never before the last
// change is confirmed. Wanted are the most important members, in an odd number: of
// two voters both must live, so one is better.
func (m *Machine) adjustVoters() {
	if !m.acting() {
		return
	}
	if m.reign() == nil {
		if m.wantedVoters() < 3 || m.newcomer() == nil {
			return
		}
		if m.ballot == nil {
			m.ballot = &ballot{}
		}
		m.entrust(m.epoch, m.self)
		m.ballot.reign = &reign{started: true, confirmed: true, fences: math.MaxUint64}
	}
	b, rg := m.ballot, m.reign()
	if !rg.confirmed {
		m.giveUpNewcomer()
		return
	}
	voters := slices.Clone(b.of.voters)
	gone := slices.IndexFunc(voters, func(n protocol.Node) bool { return n != m.self && !m.lives(n) })
	heir := m.sessionOf(rg.heir)
	rg.heir = protocol.Node{}
	rg.old = b.of.voters
	switch {
	case m.departing && heir == nil:
		rg.old = nil
		return
	case gone >= 0:
		voters = slices.Delete(voters, gone, gone+1)
	case heir != nil && !slices.Contains(voters, heir.node):
		voters = append(voters, heir.node)
	case len(voters) < m.wantedVoters() && m.newcomer() != nil:
		voters = append(voters, m.newcomer().node)
	case len(voters) > m.wantedVoters():
		last := len(voters) - 1
		if voters[last] == m.self {
			last--
		}
		voters = slices.Delete(voters, last, last+1)
	default:
		rg.old = nil
		return
	}
	m.nameVoters(voters)
}

// nameVoters makes these the voters, most important first.
func (m *Machine) nameVoters(voters []protocol.Node) {
	slices.SortFunc(voters, func(a, b protocol.Node) int { return rank(m.priorityOf(a), a, m.priorityOf(b), b) })
	b := m.ballot
	b.of = electorate{m.epoch, b.of.version + 1, voters}
	b.reign.confirmed = false
	m.lead()
}

// giveUpNewcomer goes back to the old voters if the one that was to be added has
// gone before it confirmed.
func (m *Machine) giveUpNewcomer() {
	b, rg := m.ballot, m.reign()
	for _, n := range b.of.voters {
		if n != m.self && rg.old != nil && !slices.Contains(rg.old, n) && !m.lives(n) {
			m.nameVoters(slices.Clone(rg.old))
			return
		}
	}
}

// lives reports whether a voter lives and means to stay. One that confirms us may have
// no session yet after an election.
func (m *Machine) lives(n protocol.Node) bool {
	if s := m.sessionOf(n); s != nil {
		return !s.goodbye
	}
	p := m.pledgeOf(n)
	return !p.gone && p.sent != 0 && m.now-p.sent <= m.leaseSpan()
}

func (m *Machine) priorityOf(n protocol.Node) int64 {
	if n == m.self {
		return m.priority
	}
	if s := m.sessionOf(n); s != nil {
		return s.priority
	}
	return math.MaxInt64
}

// wantedVoters is how many voters there should be: all who have stayed for a
// while, an odd number of them, and at most maxVoters.
func (m *Machine) wantedVoters() int {
	n := 1
	for _, s := range m.sessions {
		if m.settled(s) {
			n++
		}
	}
	n = max(1, min(n, int(m.maxVoters)))
	return n - (n+1)%2
}

// settled reports whether a member may vote: it can become the root, and has been
// there long enough not to come and go.
func (m *Machine) settled(s *memberSession) bool {
	return !s.goodbye && !s.rooted && int64(s.beats) > min(int64(m.timing.MoveAfter/m.heartbeat()), math.MaxUint8/2)
}

// newcomer is the most important member that has no vote yet and may have one.
func (m *Machine) newcomer() *memberSession {
	var best *memberSession
	for _, s := range m.sessions {
		if !m.settled(s) || m.reign() != nil && slices.Contains(m.ballot.of.voters, s.node) {
			continue
		}
		if best == nil || rank(s.priority, s.node, best.priority, best.node) < 0 {
			best = s
		}
	}
	return best
}
