package padme

import (
	"encoding/binary"

	"padme/qosmutex/protocol"
)

func (s *scribe) machine(m *Machine) {
	s.node(m.self)
	if s.flags(m.role == protocol.Departed); m.role == protocol.Departed {
		return
	}
	s.flags(m.barred)
	s.flags(m.began, m.departing, m.idle, m.reported, m.wanted != nil, m.roll != nil, m.join != nil, m.early != nil)
	s.uint(uint64(m.role), uint64(m.depth), m.linkGen)
	s.int(m.priority)
	s.int(int64(m.timing.TTL))
	s.named(SortClock, m.clock)
	s.named(SortClock, m.servedClock)
	s.named(SortGrant, m.grants)
	s.named(SortFence, m.fences)
	s.epoch(m.epoch)
	s.node(m.root)
	s.nodes(m.ancestors)
	if m.wanted != nil {
		s.models(*m.wanted)
	}
	s.settings(&m.settings)
	if m.settings.Version == 0 || m.settings.Open || len(m.resources) < len(m.settings.Resources) { // else each token has it
		s.grant(m.bound)
	}
	s.times(m)
	s.join(m)
	s.roll(m)
	s.authority(m)
	if h := m.early; h != nil {
		s.node(h.from)
		s.epoch(h.epoch)
		s.handover(h.tokens, h.sessions)
	}
	s.link(m, m.parent)
	s.uint(uint64(len(m.children)))
	for _, l := range m.children {
		s.link(m, l)
	}
	s.requests(m)
	s.uint(uint64(len(m.resources)))
	for _, r := range m.resources {
		s.text(r.q.resource)
		s.token(m, &r.tok)
	}
}

func (s *scribe) times(m *Machine) {
	s.left(m.beacon.next)
	s.names.note(SortBeacon, m.epoch.Number, m.beacon.number)
	s.uint(uint64(m.beacon.members))
	if m.role == protocol.Member {
		s.age(m.beacon.fresh, m.beaconTimeout()-m.beacon.fresh)
	}
	if s.flags(m.outranks != 0); m.outranks != 0 {
		s.age(m.outranks, m.timing.MoveAfter)
	}
	if m.departing {
		s.left(m.departBy)
	}
	s.left(m.confirmAt)
	s.uint(m.session.number, m.domain, uint64(m.session.asked))
	s.flags(m.session.slow, m.session.late)
	if m.session.number != 0 {
		s.left(m.session.until)
	}
}

// maxRounds is after how many rounds of Join the wait grows no longer.
const maxRounds = 4

func (s *scribe) join(m *Machine) {
	j := m.join
	if j == nil {
		return
	}
	s.flags(j.moving, j.best.root, j.best.free, j.best.displace)
	s.left(j.until)
	s.uint(uint64(min(j.rounds, maxRounds)), uint64(j.best.depth), j.gen)
	s.node(j.best.from)
	s.int(j.best.priority)
	s.node(j.target)
	if s.flags(j.lost != nil); j.lost != nil { // only to repeat what it kept
		s.node(j.lost.peer)
		s.uint(j.lost.gen)
		s.kept(m.self, j.lost)
	}
}

func (s *scribe) authority(m *Machine) {
	if m.role != protocol.Root {
		return
	}
	a := &m.authority
	s.flags(a.yielding, m.isFixedRoot)
	s.left(a.until)
	if a.renewed != protocol.Never {
		s.age(a.renewed, m.timing.TTL)
	}
	s.renewal(a.renewal)
	s.named(SortFence, a.ceiling)
	if s.flags(m.inheriting()); m.inheriting() {
		s.left(a.inherit)
		s.node(a.before)
		if s.nodes(a.awaited); len(a.awaited) > 0 {
			s.left(a.callAt)
		}
	}
}

func (s *scribe) renewal(r protocol.Renewal) {
	s.named(SortVersion, r.Counter)
	s.named(SortNonce, r.Nonce)
}

func (s *scribe) roll(m *Machine) {
	if m.roll == nil {
		return
	}
	s.uint(m.lastSession, uint64(len(m.sessions)))
	first := protocol.Never
	for _, o := range m.sessions {
		s.node(o.node)
		s.uint(o.number, uint64(o.asked))
		s.int(o.priority)
		s.text(o.parent)
		s.left(o.deadline)
		s.age(o.sent, m.timing.TTL)    // an answer as old as that is too late
		s.age(o.heard, m.timing.TTL/2) // who was not heard for that long is silent
		s.flags(o.goodbye, o.candidate, o.beaten, o.slow)
		first = min(first, o.deadline)
	}
	s.flags(m.nextExpiry <= first) // that bound only saves work
}

// link writes one end of a link; nil as 0.
func (s *scribe) link(m *Machine, l *link) {
	s.flags(l != nil)
	if l == nil {
		return
	}
	s.node(l.peer)
	s.uint(l.gen, l.session)
	s.int(l.priority)
	if l != m.parent { // that one's silence is noticed by the beacon
		s.age(l.heard, max(m.grace, 2*m.heartbeat()+1))
	}
	out, in := direction(m.self, l.peer, l.gen), direction(l.peer, m.self, l.gen)
	s.names.note(SortLink, out, l.sent)
	s.names.note(SortLink, in, l.received)
	s.flags(l.asked, l.leaving, l.parting)
	if l.asked {
		s.age(l.askedAt, m.timing.Heartbeat)
	}
	if l.leaving {
		s.left(l.leaveBy)
	}
	s.kept(m.self, l)
}

// kept writes what a link may have to repeat. The messages are numbered up to the
// last one sent, so how many there are says what is acknowledged.
func (s *scribe) kept(self protocol.Node, l *link) {
	s.uint(uint64(l.unacked))
	for rest := l.kept[l.start:]; len(rest) > 0; {
		n := lengthWidth + int(binary.LittleEndian.Uint32(rest))
		msg := &s.names.kept
		if s.names.decoder.Decode(rest[lengthWidth:n], msg) == nil {
			msg.From, msg.To = self, l.peer
			s.message(msg)
		}
		rest = rest[n:]
	}
	s.names.note(SortLink, direction(self, l.peer, l.gen), l.sent-uint64(l.unacked))
}

// direction names one direction of one link.
func direction(from, to protocol.Node, gen uint64) uint64 {
	return (tie(from)*31+tie(to))*31 + gen
}

func (s *scribe) linkName(l *link) {
	if l == nil {
		s.uint(0)
		return
	}
	s.node(l.peer)
	s.uint(l.gen)
}

// requests writes all that live. Their queues follow from them.
func (s *scribe) requests(m *Machine) {
	all := m.liveEntries()
	s.uint(uint64(len(all)))
	next := protocol.Never
	for _, e := range all {
		s.id(e.id)
		s.int(e.priority)
		s.text(e.q.resource)
		s.linkName(e.from)
		s.uint(uint64(len(e.also)))
		for _, l := range e.also {
			s.linkName(l)
		}
		s.uint(uint64(e.hops), uint64(e.state), e.ref)
		s.flags(e.sent, e.try, e.named, e.fixed, e.deadline != protocol.Never)
		s.names.note(SortArrival, tie(m.self), e.came)
		s.uint(uint64(e.patience), uint64(e.rank))
		if e.deadline != protocol.Never {
			s.int(int64(max(e.deadline-s.now, -1))) // it has not passed at the instant itself
		}
		s.int(int64(e.hold))
		if e.from == nil && e.state == waiting {
			next = min(next, e.deadline)
		}
	}
	s.flags(m.nextMiss <= next) // that bound only saves work
}

func (s *scribe) token(m *Machine, t *token) {
	s.uint(uint64(t.phase))
	s.provisional(m, t)
	s.flags(t.up, t.toTarget && t.phase == using, t.returned && t.phase == kept, t.used, t.passed != nil)
	s.grant(t.grant)
	if bound := t.bound; bound.Compare(t.grant) < 0 {
		s.grant(protocol.Grant{}) // what is older than grant is refused anyhow
	} else {
		s.grant(bound)
	}
	s.named(SortFence, t.next)
	s.named(SortClock, t.replied.clock)
	s.named(SortFence, t.replied.fence)
	if t.passed != nil {
		s.node(*t.passed)
	}
	if t.phase != home {
		s.id(t.target)
	}
	switch t.phase {
	case using:
		s.named(SortFence, t.fence)
		s.id(t.inside.id)
		s.int(t.prio) // for the Reply that is still to go on; else it is only reported
		fallthrough
	case kept, below:
		s.fences(t.fences)
		s.entries(t.entries)
	}
	if t.phase == below {
		s.linkName(t.down)
		if m.role == protocol.Root {
			for _, o := range m.sessions {
				s.flags(o.after.Compare(t.grant) < 0)
			}
		}
	}
	if m.role == protocol.Root && t.phase != home {
		s.left(t.back)
	}
	rec := t.recovery
	if s.flags(rec != nil); rec == nil {
		return
	}
	s.flags(rec.all, rec.mislaid)
	if !rec.all {
		s.left(rec.until)
	}
	s.nodes(rec.pending)
	s.nodes(rec.answered)
}

// provisional writes when a provisional grant ends.
func (s *scribe) provisional(m *Machine, t *token) {
	switch {
	case t.phase == below && m.role == protocol.Root:
		if s.flags(t.due != 0, t.sole); t.due != 0 {
			s.left(t.due)
		}
	case t.unconfirmed():
		s.flags(true)
		s.left(t.until)
		s.age(t.entered, m.provisionalSpan())
	default:
		s.flags(false)
	}
}

func (s *scribe) message(msg *protocol.Message) {
	s.uint(uint64(msg.Kind), uint64(msg.Flags), msg.Register, msg.Link, uint64(msg.Reason), uint64(msg.Verdict), uint64(msg.Hops), msg.Session)
	s.node(msg.From)
	s.node(msg.To)
	s.epoch(msg.Epoch)
	s.node(msg.Root)
	if s.flags(msg.Seq != 0); msg.Seq != 0 {
		s.names.note(SortLink, direction(msg.From, msg.To, msg.Link), msg.Seq)
	}
	s.names.note(SortLink, direction(msg.To, msg.From, msg.Link), msg.Ack)
	s.id(msg.ID)
	s.named(SortClock, msg.Clock)
	s.int(msg.Priority)
	s.text(msg.Resource)
	s.fences(msg.Fences)
	s.grant(msg.Grant)
	s.number(msg)
	s.int(int64(msg.TTL))
	s.int(int64(msg.Within))
	s.int(int64(msg.Hold))
	if s.flags(msg.Until != 0); msg.Until != 0 {
		s.left(msg.Until)
	}
	s.node(msg.Peer)
	s.int(msg.PeerP)
	s.settings(&msg.Settings)
	s.nodes(msg.Path)
	s.entries(msg.Entries)
	s.handover(msg.Tokens, msg.Sessions)
}

// number writes what Number, Sent and Waiting mean in each kind.
func (s *scribe) number(msg *protocol.Message) {
	switch msg.Kind {
	case protocol.KindBeacon, protocol.KindAccept:
		s.names.note(SortBeacon, msg.Epoch.Number, msg.Number)
		s.uint(uint64(msg.Waiting))
	case protocol.KindBeat:
		s.uint(msg.Attempt)
		s.age(msg.Sent, protocol.Never)
	case protocol.KindBeatAck:
		s.uint(msg.Attempt, uint64(msg.Rank))
		s.renewal(msg.Renewal)
		s.int(int64(msg.Valid))
		s.age(msg.Sent, msg.TTL) // then it is too late
	}
}

func (s *scribe) handover(tokens []protocol.TokenState, sessions []protocol.SessionState) {
	s.uint(uint64(len(tokens)), uint64(len(sessions)))
	for i := range tokens {
		t := &tokens[i]
		s.text(t.Resource)
		s.flags(t.Out)
		s.grant(t.Grant)
		s.named(SortFence, t.Fence)
		if t.Out { // else for whom it was is not read
			s.id(t.Target)
			s.nodes(t.Path)
		}
	}
	for i := range sessions {
		o := &sessions[i]
		s.node(o.Node)
		s.uint(o.Number)
		s.int(o.Priority)
		s.node(o.Parent)
	}
}
