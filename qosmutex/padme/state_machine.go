package padme

import (
	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

func (m *Machine) write(w *canonical.Writer) {
	w.Node(m.self)
	if w.Is(m.role == protocol.Departed) {
		return
	}
	w.Flags(m.began, m.departing, m.idle, m.reported, m.wanted != nil, m.join != nil, m.early != nil)
	w.Uint(uint64(m.role), uint64(m.depth), m.linkGen)
	w.Int(m.priority)
	w.Int(int64(m.timing.TTL))
	w.Named(canonical.SortClock, m.clock)
	w.Named(canonical.SortClock, m.servedClock)
	w.Named(canonical.SortGrant, m.grants)
	w.Named(canonical.SortFence, m.fences)
	w.Epoch(m.epoch)
	w.Node(m.root)
	w.Nodes(m.ancestors)
	if m.wanted != nil {
		w.Models(*m.wanted)
	}
	w.Settings(&m.settings)
	if m.settings.Version == 0 || m.settings.Open || len(m.resources) < len(m.settings.Resources) { // else each token has it
		w.Grant(m.bound)
	}
	m.writeTimes(w)
	m.writeJoin(w)
	m.writeRoll(w)
	m.writeAuthority(w)
	if h := m.early; h != nil {
		w.Node(h.from)
		w.Epoch(h.epoch)
		w.Handover(h.tokens, h.sessions)
	}
	m.writeLink(w, m.parent)
	w.Uint(uint64(len(m.children)))
	for _, l := range m.children {
		m.writeLink(w, l)
	}
	m.writeRequests(w)
	w.Uint(uint64(len(m.resources)))
	for _, r := range m.resources {
		w.Text(r.q.resource)
		m.writeToken(w, &r.tok)
	}
}

func (m *Machine) writeTimes(w *canonical.Writer) {
	w.Left(m.beacon.next)
	w.Names.NoteIn(canonical.SortBeacon, m.epoch.Number, m.beacon.number)
	w.Uint(uint64(m.beacon.members))
	if m.role == protocol.Member {
		w.Age(m.beacon.fresh, m.beaconTimeout()-m.beacon.fresh)
	}
	if w.Is(m.outranks != 0) {
		w.Age(m.outranks, m.timing.MoveAfter)
	}
	if m.departing {
		w.Left(m.departBy)
	}
	w.Left(m.confirmAt)
	w.Uint(m.session.number, uint64(m.session.asked))
	w.Flags(m.session.slow, m.session.late)
	if m.session.number != 0 {
		w.Left(m.session.until)
	}
}

// maxRounds is after how many rounds of Join the wait grows no longer.
const maxRounds = 4

func (m *Machine) writeJoin(w *canonical.Writer) {
	j := m.join
	if j == nil {
		return
	}
	w.Flags(j.moving, j.best.root, j.best.free, j.best.displace)
	w.Left(j.until)
	w.Uint(uint64(min(j.rounds, maxRounds)), uint64(j.best.depth), j.gen)
	w.Node(j.best.from)
	w.Int(j.best.priority)
	w.Node(j.target)
	if w.Is(j.lost != nil) { // only to repeat what it kept
		w.Node(j.lost.peer)
		w.Uint(j.lost.gen)
		j.lost.writeKept(w, m.self)
	}
}

func (m *Machine) writeAuthority(w *canonical.Writer) {
	if m.role != protocol.Root {
		return
	}
	a := &m.authority
	w.Flags(a.yielding, m.isFixedRoot)
	w.Left(a.until)
	if a.renewed != protocol.Never {
		w.Age(a.renewed, m.timing.TTL)
	}
	w.Renewal(a.renewal)
	w.Named(canonical.SortFence, a.ceiling)
	if w.Is(m.inheriting()) {
		w.Left(a.inherit)
		w.Node(a.before)
		if w.Nodes(a.awaited); len(a.awaited) > 0 {
			w.Left(a.callAt)
		}
	}
}

func (m *Machine) writeRoll(w *canonical.Writer) {
	if m.role != protocol.Root {
		return
	}
	w.Uint(m.lastSession, uint64(len(m.sessions)))
	first := protocol.Never
	for _, o := range m.sessions {
		w.Node(o.node)
		w.Uint(o.number, uint64(o.asked))
		w.Int(o.priority)
		w.Text(o.parent)
		w.Left(o.deadline)
		w.Age(o.sent, m.timing.TTL)    // an answer as old as that is too late
		w.Age(o.heard, m.timing.TTL/2) // who was not heard for that long is silent
		w.Flags(o.goodbye, o.candidate, o.beaten, o.slow)
		first = min(first, o.deadline)
	}
	w.Flags(m.nextExpiry <= first) // that bound only saves work
}

// link writes one end of a link; nil as 0.
func (m *Machine) writeLink(w *canonical.Writer, l *link) {
	w.Flags(l != nil)
	if l == nil {
		return
	}
	w.Node(l.peer)
	w.Uint(l.gen, l.session)
	w.Int(l.priority)
	if l != m.parent { // that one's silence is noticed by the beacon
		w.Age(l.heard, max(m.grace, 2*m.heartbeat()+1))
	}
	w.OnLink(m.self, l.peer, l.gen, l.sent)
	w.OnLink(l.peer, m.self, l.gen, l.received)
	w.Flags(l.asked, l.leaving, l.parting)
	if l.asked {
		w.Age(l.askedAt, m.timing.Heartbeat)
	}
	if l.leaving {
		w.Left(l.leaveBy)
	}
	l.writeKept(w, m.self)
}

// kept writes what a link may have to repeat. The messages are numbered up to the
// last one sent, so how many there are says what is acknowledged.
func (l *link) writeKept(w *canonical.Writer, self protocol.Node) {
	w.Uint(uint64(l.unacked))
	for _, msg := range l.unacknowledged() {
		msg.Epoch, msg.Ack, msg.Clock = protocol.Epoch{}, 0, 0 // see repeat
		w.Message(&msg)
	}
	w.OnLink(self, l.peer, l.gen, l.sent-uint64(l.unacked))
}

func (l *link) writeName(w *canonical.Writer) {
	if l == nil {
		w.Uint(0)
		return
	}
	w.Node(l.peer)
	w.Uint(l.gen)
}

// requests writes all that live. Their queues follow from them.
func (m *Machine) writeRequests(w *canonical.Writer) {
	all := m.requests
	w.Uint(uint64(len(all)))
	next := protocol.Never
	for _, e := range all {
		w.ID(e.id)
		w.Int(e.priority)
		w.Text(e.q.resource)
		e.from.writeName(w)
		w.Uint(uint64(len(e.also)))
		for _, l := range e.also {
			l.writeName(w)
		}
		w.Uint(uint64(e.hops), uint64(e.state), e.ref)
		w.Flags(e.sent, e.try, e.named, e.fixed, e.deadline != protocol.Never)
		w.Names.NoteIn(canonical.SortArrival, m.self.Tie(), e.came)
		w.Uint(uint64(e.patience), uint64(e.rank))
		if e.deadline != protocol.Never {
			w.Int(int64(max(e.deadline-w.Now, -1))) // it has not passed at the instant itself
		}
		w.Int(int64(e.hold))
		if e.from == nil && e.state == waiting {
			next = min(next, e.deadline)
		}
	}
	w.Flags(m.nextMiss <= next) // that bound only saves work
}

func (m *Machine) writeToken(w *canonical.Writer, t *token) {
	w.Uint(uint64(t.phase))
	m.writeProvisional(w, t)
	w.Flags(t.up, t.toTarget && t.phase == using, t.returned && t.phase == kept, t.used, t.passed != nil)
	w.Grant(t.grant)
	if bound := t.bound; bound.Compare(t.grant) < 0 {
		w.Grant(protocol.Grant{}) // what is older than grant is refused anyhow
	} else {
		w.Grant(bound)
	}
	w.Named(canonical.SortFence, t.next)
	w.Named(canonical.SortClock, t.replied.clock)
	w.Named(canonical.SortFence, t.replied.fence)
	if t.passed != nil {
		w.Node(*t.passed)
	}
	if t.phase != home {
		w.ID(t.target)
	}
	switch t.phase {
	case using:
		w.Named(canonical.SortFence, t.fence)
		w.ID(t.inside.id)
		w.Int(t.prio) // for the Reply that is still to go on; else it is only reported
		fallthrough
	case kept, below:
		w.Fences(t.fences)
		w.Entries(t.entries)
	}
	if t.phase == below {
		t.down.writeName(w)
		if m.role == protocol.Root {
			for _, o := range m.sessions {
				w.Flags(o.after.Compare(t.grant) < 0)
			}
		}
	}
	if m.role == protocol.Root && t.phase != home {
		w.Left(t.back)
	}
	rec := t.recovery
	if w.Flags(rec != nil); rec == nil {
		return
	}
	w.Flags(rec.all, rec.mislaid)
	if !rec.all {
		w.Left(rec.until)
	}
	w.Nodes(rec.pending)
	w.Nodes(rec.answered)
}

// provisional writes when a provisional grant ends.
func (m *Machine) writeProvisional(w *canonical.Writer, t *token) {
	switch {
	case t.phase == below && m.role == protocol.Root:
		if w.Flags(t.due != 0, t.sole); t.due != 0 {
			w.Left(t.due)
		}
	case t.unconfirmed():
		w.Flags(true)
		w.Left(t.until)
		w.Age(t.entered, m.provisionalSpan())
	default:
		w.Flags(false)
	}
}
