package padme

import (
	"cmp"
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
	active  bool
	moving  bool // there is a parent meanwhile
	until   protocol.Time
	rounds  uint
	best    offer
	target  protocol.Node // Attach was sent to it
	gen     uint64
	foundAt protocol.Time // founding: when we may become the root
}

// beacon is the newest sign of life of the root.
type beacon struct {
	number  uint64
	members uint32
	fresh   protocol.Time // when it arrived
	next    protocol.Time // when the next tick is due
}

// rank orders participants by importance: (P,I) of the papers.
func rank(p int64, n protocol.Node, q int64, o protocol.Node) int {
	if c := cmp.Compare(p, q); c != 0 {
		return c
	}
	return n.Compare(o)
}

func (m *Machine) begin() {
	m.beacon.next = m.now + m.heartbeat()
	if m.cfg.Found && m.cfg.AtOnce {
		m.found()
		return
	}
	if m.cfg.Found {
		m.listen()
		return
	}
	m.startJoin()
}

// found makes this participant the root of a new tree.
func (m *Machine) found() {
	if m.settings.Version == 0 { // else it is founded again
		m.settings = m.cfg.Settings
		m.settings.Version = 1
	}
	m.becomeRoot(protocol.Epoch{Number: max(m.cfg.EpochFloor, m.epoch.Number) + 1, Tie: tie(m.self)})
	for _, e := range m.liveEntries() { // asked before the settings were known
		if reason := m.refusal(e.resource); reason != protocol.ReasonNone {
			m.refuse(e, reason)
		} else if e.try {
			m.serveTry(e)
		}
	}
	for _, r := range m.resources {
		m.serve(r)
	}
	m.offer(protocol.Node{}) // whoever looks for a root need not ask again
}

// tie makes epochs of different roots differ (FNV-1a over the root's name).
func tie(n protocol.Node) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n.ID) {
		h = (h ^ uint64(n.ID[i])) * 1099511628211
	}
	for i := range 8 {
		h = (h ^ n.Incarnation>>(8*i)&0xff) * 1099511628211
	}
	return h
}

// becomeRoot starts a reign. Tokens that nobody has are at home.
func (m *Machine) becomeRoot(e protocol.Epoch) {
	m.role, m.epoch, m.root, m.parent = protocol.Root, e, m.self, nil
	m.depth, m.ancestors = 0, m.ancestors[:0]
	m.join, m.session = join{}, session{asked: m.session.asked}
	m.outranks, m.nextLapse = 0, protocol.Never
	m.lease.sent = max(m.lease.sent, m.now) // the first one is on its way
	m.beat()
	for _, name := range m.settings.Resources {
		m.resource(name)
	}
	for _, r := range m.resources {
		if r.tok.phase == away {
			r.tok.phase = home
		}
		r.tok.next = max(r.tok.next, m.fences)
	}
}

// startJoin asks everybody for a parent, and again until there is one.
func (m *Machine) startJoin() {
	j := &m.join
	*j = join{active: true, moving: m.parent != nil, rounds: j.rounds + 1, foundAt: j.foundAt}
	if m.parent == nil && m.role != protocol.Founding {
		m.role = protocol.Joining
	}
	j.until = m.now + m.timing.JoinWait<<min(j.rounds-1, 3)
	msg := m.emit(protocol.KindJoin, protocol.Node{})
	msg.Priority = m.priority
	msg.Peer.ID = m.cfg.Parent
	if m.role == protocol.Founding {
		msg.Flags |= protocol.FlagFounding
	}
}

// onJoin offers ourselves to a newcomer if we rank above it.
func (m *Machine) onJoin(msg *protocol.Message) error {
	above := rank(m.priority, m.self, msg.Priority, msg.From) < 0
	switch {
	case m.role == protocol.Founding && msg.Flags&protocol.FlagFounding != 0 && !above:
		m.join.foundAt = m.now + m.timing.Grace() // the more important founder goes first
	case m.role != protocol.Root && (m.role != protocol.Member || m.departing):
	case msg.From.ID == m.self.ID || slices.Contains(m.ancestors, msg.From):
	case msg.Peer.ID != "" && msg.Peer.ID != m.self.ID && m.role != protocol.Root:
	case msg.Peer.ID == "" && !above && m.role != protocol.Root:
	default:
		m.offer(msg.From)
	}
	return nil
}

// offer says what place we have to offer; to nobody in particular when a new
// root announces itself.
func (m *Machine) offer(to protocol.Node) {
	msg := m.emit(protocol.KindOffer, to)
	msg.Root, msg.Priority, msg.Hops, msg.Path = m.root, m.priority, m.depth, m.lineage()
	if m.role == protocol.Root {
		msg.Flags |= protocol.FlagRoot
	}
	if least := m.leastChild(); m.slots() > 0 {
		msg.Flags |= protocol.FlagFree
	} else if least != nil {
		msg.Peer, msg.PeerP = least.peer, least.priority
	}
}

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(slices.Clone(m.ancestors), m.self)
}

// slots is how many more children we take.
func (m *Machine) slots() int {
	n := m.cfg.Fanout
	for _, l := range m.children {
		if !l.leaving {
			n--
		}
	}
	return n
}

func (m *Machine) leastChild() *link {
	var least *link
	for _, l := range m.children {
		if !l.leaving && (least == nil || rank(l.priority, l.peer, least.priority, least.peer) > 0) {
			least = l
		}
	}
	return least
}

func (m *Machine) onOffer(msg *protocol.Message) error {
	if !m.join.active || slices.Contains(msg.Path, m.self) || msg.Root.IsZero() {
		return nil
	}
	if msg.Epoch.Compare(m.epoch) < 0 {
		return m.stale(msg, "an old epoch")
	}
	m.epoch, m.root = msg.Epoch, msg.Root
	if m.role == protocol.Founding { // there is a root: nothing to found
		m.role, m.join.foundAt, m.lease = protocol.Joining, 0, lease{}
	}
	if m.session.number == 0 {
		m.beat()
	}
	o := offer{
		from: msg.From, priority: msg.Priority, depth: msg.Hops,
		root: msg.Flags&protocol.FlagRoot != 0, free: msg.Flags&protocol.FlagFree != 0,
	}
	o.displace = !o.free && !msg.Peer.IsZero() && rank(m.priority, m.self, msg.PeerP, msg.Peer) < 0
	if m.cfg.Parent != "" && o.from.ID != m.cfg.Parent {
		return nil
	}
	if m.join.best.from.IsZero() || o.better(m.join.best) {
		m.join.best = o
	}
	m.progressJoin()
	return nil
}

// better prefers a free slot, then one that can be made free, then the least
// deep, then the one closest to us in rank.
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
	return rank(o.priority, o.from, b.priority, b.from) > 0
}

// progressJoin attaches to the best candidate as soon as nothing better can come.
func (m *Machine) progressJoin() {
	j := &m.join
	if !j.active || !j.target.IsZero() || j.best.from.IsZero() || m.session.number == 0 {
		return
	}
	if m.now < j.until && !(j.best.root && j.best.free) && m.cfg.Parent == "" {
		return
	}
	if j.moving && (j.best.from == m.parent.peer || j.best.depth+1 >= m.depth) {
		*j = join{} // no better place than ours
		return
	}
	m.attach(j.best.from, j.best.displace)
}

func (m *Machine) attach(to protocol.Node, displace bool) {
	j := &m.join
	for _, l := range m.children { // who was our child may be our parent now: no number twice between us
		m.linkGen = max(m.linkGen, l.gen)
	}
	if m.handed != nil {
		m.linkGen = max(m.linkGen, m.handed.gen)
	}
	m.linkGen++
	j.active, j.target, j.gen = true, to, m.linkGen
	j.until = m.now + 4*m.timing.JoinWait
	msg := m.emit(protocol.KindAttach, to)
	msg.Link, msg.Priority, msg.Session = j.gen, m.priority, m.session.number
	if displace {
		msg.Flags |= protocol.FlagDisplace
	}
}

// onAttach takes a child, if need be in the place of the least important one.
func (m *Machine) onAttach(msg *protocol.Message) error {
	l := m.child(msg.From)
	switch {
	case msg.Link == 0 || msg.Session == 0:
		return m.invalid(msg, "no link or session")
	case m.role != protocol.Root && (m.role != protocol.Member || m.departing),
		slices.Contains(m.ancestors, msg.From):
		m.refuseChild(msg, protocol.ReasonClosed)
		return nil
	case l != nil && l.gen > msg.Link:
		return m.stale(msg, "an old attachment")
	case l != nil && l.gen == msg.Link:
		m.acceptChild(l) // our Accept was lost
		return nil
	}
	if l == nil && m.slots() <= 0 {
		least := m.leastChild()
		if least == nil || rank(msg.Priority, msg.From, least.priority, least.peer) >= 0 {
			m.refuseChild(msg, protocol.ReasonFull)
			return nil
		}
		least.leaving, least.leaveBy = true, m.now+2*m.heartbeat()
		move := m.emitOn(least, protocol.KindDetach)
		move.Peer = msg.From
		m.commit(least, move)
	}
	fresh := &link{peer: msg.From, gen: msg.Link, priority: msg.Priority, session: msg.Session, heard: m.now}
	if l != nil {
		if l.leaving { // it still is
			fresh.leaving, fresh.leaveBy = true, m.now+2*m.heartbeat()
		}
		m.replaceChild(l, fresh)
	} else {
		i, _ := slices.BinarySearchFunc(m.children, fresh.peer, func(l *link, n protocol.Node) int { return l.peer.Compare(n) })
		m.children = slices.Insert(m.children, i, fresh)
	}
	m.acceptChild(fresh)
	return nil
}

// replaceChild puts a child's new attachment in the place of the old one. What
// it does not name again is dropped by sweep.
func (m *Machine) replaceChild(old, fresh *link) {
	m.children[slices.Index(m.children, old)] = fresh
	for _, e := range m.requests {
		if e.from == old {
			e.from, e.named = fresh, false
		}
	}
	m.any.child(old).from = fresh
	for _, r := range m.resources {
		r.q.child(old).from = fresh
	}
	m.tokensBelow(old)
}

// remind tells a child again that it is to leave, and this time that any other
// place will do: the one it was sent to may be gone, or have been below it.
func (m *Machine) remind(l *link) {
	if len(m.children) <= m.cfg.Fanout {
		l.leaving = false // there is room again
		return
	}
	l.leaveBy = m.now + m.timing.Grace()
	m.commit(l, m.emitOn(l, protocol.KindDetach))
}

func (m *Machine) refuseChild(msg *protocol.Message, why protocol.Reason) {
	no := m.emit(protocol.KindRefuse, msg.From)
	no.Link, no.Reason = msg.Link, why
}

func (m *Machine) acceptChild(l *link) {
	msg := m.emitOn(l, protocol.KindAccept)
	msg.Root, msg.Hops, msg.TTL, msg.Path = m.root, m.depth, m.timing.TTL, m.lineage()
	msg.Number, msg.Waiting, msg.Settings = m.beacon.number, m.beacon.members, m.settings
}

// onAccept makes the candidate our parent and names every live request to it.
func (m *Machine) onAccept(msg *protocol.Message) error {
	j := &m.join
	if !j.active || j.target != msg.From || j.gen != msg.Link {
		return m.stale(msg, "not asked for")
	}
	if msg.Epoch.Compare(m.epoch) < 0 || m.session.number == 0 {
		return m.stale(msg, "an old epoch or session")
	}
	if slices.Contains(msg.Path, m.self) || len(msg.Path) >= maxDepth {
		m.startJoin()
		return nil
	}
	m.mergeClock(msg)
	if l := m.child(msg.From); l != nil {
		m.dropChild(l) // it has a parent elsewhere by now: it could not accept us below itself
	}
	old := m.parent
	*j = join{}
	m.handed = nil
	m.parent = &link{peer: msg.From, gen: msg.Link, depth: msg.Hops, heard: m.now}
	m.role, m.epoch, m.root = protocol.Member, msg.Epoch, msg.Root
	m.depth, m.ancestors = msg.Hops+1, append(m.ancestors[:0], msg.Path...)
	m.beacon.number, m.beacon.members, m.beacon.fresh = msg.Number, msg.Waiting, m.now
	m.outranks = 0
	m.adoptSettings(msg.Settings)
	if old != nil {
		m.counters.Moves++
		m.emitOn(old, protocol.KindDetach)
	}
	m.nameAll()
	m.resumeUpward(old)
	m.sendBeacons()
	m.beat() // the root learns our place
	if m.departing {
		m.sayFarewell()
	}
	return nil
}

// resumeUpward passes on what could not go up while there was no parent. What
// was sent on a lost link but never acknowledged goes again as a receipt.
func (m *Machine) resumeUpward(old *link) {
	if old == nil {
		old = m.lost
	}
	m.lost = nil
	if old != nil {
		for i := range int(old.sent - old.acked) {
			was := &old.unacked[(old.first+i)%len(old.unacked)]
			if was.Kind != protocol.KindRelease {
				continue
			}
			msg := m.emitOn(m.parent, protocol.KindRelease)
			msg.Flags = was.Flags | protocol.FlagRepeated
			msg.ID, msg.Resource, msg.Grant, msg.Fences, msg.Entries = was.ID, was.Resource, was.Grant, was.Fences, was.Entries
			m.commit(m.parent, msg)
		}
	}
	for _, r := range m.resources {
		switch t := &r.tok; {
		case t.phase == kept:
			m.passUp(r, t.returned)
		case t.phase == below && t.down == nil:
			m.sendReceipt(r)
		}
	}
	if m.wanted != nil {
		m.propose(*m.wanted)
	}
}

func (m *Machine) onRefuse(msg *protocol.Message) error {
	if j := &m.join; j.active && j.target == msg.From && j.gen == msg.Link {
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
	case m.cfg.Parent == "" && m.session.number != 0 && m.child(to) == nil && to != m.self:
		m.startJoin()
		m.attach(to, false)
	}
}

// orphan gives up our parent and looks for another. Our children stay.
func (m *Machine) orphan() {
	m.lost = m.parent
	m.parent = nil
	if m.departing {
		m.finish()
		return
	}
	m.join.rounds = 0
	m.startJoin()
}

// closed handles the end of a link that the peer has closed.
func (m *Machine) closed(l *link) {
	if l == m.parent {
		m.orphan()
		return
	}
	m.emitOn(l, protocol.KindDetach) // confirms
	m.dropChild(l)
}

// dropChild forgets a child and the requests that came from it.
func (m *Machine) dropChild(l *link) {
	m.children = slices.DeleteFunc(m.children, func(c *link) bool { return c == l })
	for _, e := range m.liveEntries() {
		if e.from == l {
			m.drop(e, true)
		}
	}
	m.any.forget(l)
	for _, r := range m.resources {
		r.q.forget(l)
	}
	m.tokensBelow(l)
}

// onUnknownLink answers a peer that believes in a link which we do not have.
func (m *Machine) onUnknownLink(msg *protocol.Message) error {
	known := m.child(msg.From) != nil || m.parent != nil && m.parent.peer == msg.From ||
		m.join.target == msg.From
	if !known && msg.Link != 0 && msg.Kind != protocol.KindDetach {
		no := m.emit(protocol.KindDetach, msg.From)
		no.Link = msg.Link
	}
	return m.stale(msg, "unknown link")
}
