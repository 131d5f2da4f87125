package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// offer is what a candidate parent said of itself.
type offer struct {
	from     protocol.Node
	priority int64
	depth    uint32
	root     bool
	free     bool
	displace bool // no slot is free, but the least important child ranks below us
}

// join is the search for a parent (cloud paper §2.1): multicast the priority,
// collect offers, attach to the best.
type join struct {
	moving   bool // there is a parent meanwhile
	until    protocol.Time
	rounds   uint
	best     offer
	target   protocol.Node // Attach was sent to it
	gen      uint64
	since    protocol.Time // when anybody offered a place last, or we began
	lost     *link         // the parent given up, until its Releases are repeated
	founding *founding     // of who is Founding; else nil
}

// founding is what a founder has found out about the topic.
type founding struct {
	at    protocol.Time     // when we may become the root
	heard protocol.Time     // since when our own heartbeats have come back without a gap; 0: not yet
	doubt protocol.Node     // whom we handed over to and heard nothing of: it may be the root
	known protocol.Grant    // the newest voters that somebody without a vote named
	above uint64            // the highest number of an epoch that somebody knows of
	least protocol.Duration // how long to listen at least; 0: not known
}

// joinAnew begins a new search.
func (m *Machine) joinAnew() {
	if m.join != nil {
		m.join.rounds = 0
	}
	m.startJoin()
}

// startJoin asks everybody for a parent, and again until there is one.
func (m *Machine) startJoin() {
	j := m.join
	if j == nil {
		j = &join{since: m.now}
		m.join = j
	}
	*j = join{moving: m.parent != nil, rounds: j.rounds + 1, since: j.since, lost: j.lost, founding: j.founding}
	if m.parent == nil && m.role != protocol.Founding {
		m.role = protocol.Joining
	}
	j.until = m.now + m.timing.JoinWait<<min(j.rounds-1, 3)
	if m.role == protocol.Founding { // a root may be back at any time
		j.until = m.now + m.timing.JoinWait
	}
	msg := m.emit(protocol.KindJoin, protocol.Node{})
	msg.Priority = m.priority
	msg.Peer.ID = m.under
	if m.role == protocol.Founding {
		msg.Flags |= protocol.FlagFounding
		msg.Grant = m.votersKnown()
	}
}

// votersKnown names the newest voters that we know of; zero: we know of none.
func (m *Machine) votersKnown() protocol.Grant {
	if m.ballot == nil {
		return protocol.Grant{}
	}
	return protocol.Grant{Epoch: m.ballot.of.epoch, Number: m.ballot.of.version}
}

// foundsFirst reports whether another founder goes before us: who knows of newer
// voters, for objections that hold up the other are of no weight to it, and among
// equals the more important.
func (m *Machine) foundsFirst(msg *protocol.Message) bool {
	if c := msg.Grant.Compare(m.votersKnown()); c != 0 {
		return c > 0
	}
	return rank(msg.Priority, msg.From, m.priority, m.self) < 0
}

// onJoin offers ourselves to a newcomer if we rank above it.
func (m *Machine) onJoin(msg *protocol.Message) error {
	m.overtaken(msg)
	above := rank(m.priority, m.self, msg.Priority, msg.From) < 0
	if msg.Flags&protocol.FlagFounding != 0 && msg.Epoch.Tie == tie(m.self) && m.role != protocol.Root {
		m.disclaim(msg)
	}
	if m.doubts(msg.From.ID) && msg.From.Incarnation > m.join.founding.doubt.Incarnation { // so the one before has ended
		m.doubtless()
	}
	switch {
	case m.role == protocol.Founding && msg.Flags&protocol.FlagFounding != 0 && m.foundsFirst(msg):
		m.join.founding.at = m.now + m.listening()
	case m.role != protocol.Root && (m.role != protocol.Member || m.departing):
	case msg.From.ID == m.self.ID || slices.Contains(m.ancestors, msg.From):
	case msg.Peer.ID != "" && msg.Peer.ID != m.self.ID && m.role != protocol.Root:
	case msg.Peer.ID == "" && !above && m.role != protocol.Root:
	default:
		m.offer(msg.From)
		return nil
	}
	if msg.Flags&protocol.FlagFounding != 0 {
		m.object(msg)
	}
	return nil
}

// overtaken hears from who looks for a root that there was a later one than us, or than
// we know of. It takes nobody for the root whose epoch is lower than that, so a founder
// begins above it, and a root begins again.
func (m *Machine) overtaken(msg *protocol.Message) {
	if msg.Epoch.Compare(m.epoch) <= 0 || m.farAhead(msg.Epoch.Number) {
		return
	}
	if m.role == protocol.Root {
		m.loseLease()
	}
	if m.role == protocol.Founding {
		m.join.founding.above = max(m.join.founding.above, msg.Epoch.Number)
	}
	if m.ballot != nil {
		m.ballot.above = max(m.ballot.above, msg.Epoch.Number)
		m.ballot.fences = max(m.ballot.fences, m.floorAt(m.now)) // as that one began
	}
}

// object warns a founder of a view that can go on: we have a session in it, or a
// vote, and then it may know better. Who has none names the newest voters that it
// knows of, so that the founder does.
func (m *Machine) object(msg *protocol.Message) {
	switch {
	case m.session.number != 0:
		m.refuseChild(msg, protocol.ReasonClosed)
	case m.votes() && !m.goOn && !m.departing:
		no := m.refuseChild(msg, protocol.ReasonClosed)
		no.Grant = m.votersKnown()
	case m.ballot != nil: // somebody may object in the name of older voters
		tell := m.refuseChild(msg, protocol.ReasonClosed)
		tell.Grant = m.votersKnown()
		tell.Flags |= protocol.FlagProbe
	}
}

// offer says what place we have to offer; to nobody in particular when a new
// root announces itself.
func (m *Machine) offer(to protocol.Node) {
	msg := m.emit(protocol.KindOffer, to)
	msg.Root, msg.Priority, msg.Hops, msg.Path = m.root, m.priority, uint32(m.depth), m.lineage()
	if m.role == protocol.Root {
		msg.Flags |= protocol.FlagRoot
	}
	if least := m.leastChild(); m.slots() > 0 {
		msg.Flags |= protocol.FlagFree
	} else if least != nil {
		msg.Peer, msg.PeerP = least.peer, least.priority
	}
}

func (m *Machine) onOffer(msg *protocol.Message) error {
	if m.role == protocol.Root && msg.Flags&protocol.FlagRoot != 0 {
		m.rival(msg)
	}
	if msg.Flags&protocol.FlagRoot != 0 && m.role == protocol.Member && msg.Epoch.View() > m.epoch.View() {
		m.adoptEpoch(msg.Epoch, msg.Root) // who holds must tell it soon
	}
	if m.join == nil || slices.Contains(msg.Path, m.self) || msg.Root.IsZero() {
		return nil
	}
	if msg.Epoch.Compare(m.epoch) < 0 {
		return m.stale(msg, "an old epoch")
	}
	m.adoptEpoch(msg.Epoch, msg.Root)
	m.root, m.join.since = msg.Root, m.now
	m.join.rounds = 0                // there are members to ask: if the best has no place, or has left, ask again soon
	if m.role == protocol.Founding { // there is a root: nothing to found
		m.role, m.join.founding, m.lease = protocol.Joining, nil, lease{}
	}
	if m.session.number == 0 {
		m.beat()
	}
	o := offer{
		from: msg.From, priority: msg.Priority, depth: msg.Hops,
		root: msg.Flags&protocol.FlagRoot != 0, free: msg.Flags&protocol.FlagFree != 0,
	}
	o.displace = !o.free && !msg.Peer.IsZero() && rank(m.priority, m.self, msg.PeerP, msg.Peer) < 0
	if m.under != "" && o.from.ID != m.under {
		return nil
	}
	if m.join.best.from.IsZero() || o.better(m.join.best) {
		m.join.best = o
	}
	m.progressJoin()
	return nil
}

// rival hears of another root. Both can be in office only if one was founded beside the
// view of the other: then the older one gives way, or tells the other to.
func (m *Machine) rival(msg *protocol.Message) {
	switch c := msg.Epoch.Compare(m.epoch); {
	case c > 0:
		m.loseLease()
	case c < 0:
		m.offer(msg.From)
	}
}

// better prefers a free slot, then one that can be made free, then the least
// deep, then the one closest to us in priority, then the one that was started first:
// where members come and go it is the most likely to stay.
func (o offer) better(b offer) bool {
	if o.free != b.free {
		return o.free
	}
	if o.displace != b.displace {
		return o.displace
	}
	if o.depth != b.depth {
		return o.depth < b.depth
	}
	if o.priority != b.priority {
		return o.priority > b.priority
	}
	if o.from.Incarnation != b.from.Incarnation {
		return o.from.Incarnation < b.from.Incarnation
	}
	return o.from.Compare(b.from) > 0
}

// progressJoin attaches to the best candidate as soon as nothing better can come.
func (m *Machine) progressJoin() {
	j := m.join
	if j == nil || !j.target.IsZero() || j.best.from.IsZero() || m.session.number == 0 {
		return
	}
	if m.now < j.until && !(j.best.root && j.best.free) && m.under == "" {
		return
	}
	if j.moving && (j.best.from == m.parent.peer || j.best.depth+1 >= uint32(m.depth)) {
		m.join = nil // no better place than ours
		return
	}
	m.attach(j.best.from, j.best.displace)
}

func (m *Machine) attach(to protocol.Node, displace bool) {
	for _, l := range m.children { // who was our child may be our parent now: no number twice between us
		m.linkGen = max(m.linkGen, l.gen)
	}
	if m.handed != nil {
		m.linkGen = max(m.linkGen, m.handed.gen)
	}
	m.linkGen++
	if m.join == nil {
		m.join = &join{since: m.now}
	}
	j := m.join
	j.target, j.gen = to, m.linkGen
	j.until = m.now + 4*m.timing.JoinWait
	msg := m.emit(protocol.KindAttach, to)
	msg.Link, msg.Priority, msg.Session = j.gen, m.priority, m.session.number
	if displace {
		msg.Flags |= protocol.FlagDisplace
	}
	if m.departing {
		msg.Flags |= protocol.FlagParting
	}
}

func (m *Machine) onRefuse(msg *protocol.Message) error {
	if m.role == protocol.Founding && msg.Link == 0 && msg.Flags&protocol.FlagRefused != 0 {
		if m.join.founding.doubt != msg.From || msg.Grant.Epoch != m.epoch {
			return m.stale(msg, "not of whom we handed over to")
		}
		m.doubtless()
		return nil
	}
	if m.role == protocol.Founding && msg.Link == 0 {
		newest := m.votersKnown()
		if m.join.founding.known.Compare(newest) > 0 {
			newest = m.join.founding.known
		}
		if msg.Flags&protocol.FlagProbe != 0 {
			if msg.Grant.Compare(newest) > 0 {
				m.join.founding.known = msg.Grant
			}
			return nil
		}
		if of := msg.Grant; of.Number != 0 && newest.Compare(of) > 0 {
			return m.stale(msg, "an old electorate")
		}
		m.join.founding.at = m.now + m.listening()
		return nil
	}
	if j := m.join; j != nil && j.target == msg.From && j.gen == msg.Link {
		j.target, j.best = protocol.Node{}, offer{}
		j.until = m.now + m.timing.JoinWait // then ask again
	}
	return nil
}

// redirected moves us where our parent says; nobody means anywhere.
func (m *Machine) redirected(to protocol.Node) {
	switch {
	case to.IsZero():
		m.orphan()
	case m.under == "" && m.session.number != 0 && m.child(to) == nil && to != m.self:
		m.startJoin()
		m.attach(to, false)
	}
}
