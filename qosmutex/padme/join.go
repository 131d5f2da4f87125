package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// offer is what a candidate parent said of itself.
type offer struct {
	from     protocol.Node
	priority int64
	depth    uint32
	root     bool
	slot     slot
}

// slot says what place a parent has, the best first.
type slot uint8

const (
	free     slot = iota
	displace      // that of its least important child, which ranks below us
	full
)

// join is the search for a parent (cloud paper §2.1): multicast the priority,
// collect offers, attach to the best.
type join struct {
	until  protocol.Time
	rounds uint
	best   offer
	target protocol.Node // Attach was sent to it, for link linkGen
	lost   *link         // the parent given up, until its Releases are repeated
}

// maxRounds is after how many rounds of Join the wait grows no longer.
const maxRounds = 4

func (j *join) write(w *canonical.Writer, self protocol.Node) {
	w.Flags(j.best.root)
	w.Left(j.until)
	w.Uint(uint64(min(j.rounds, maxRounds)), uint64(j.best.depth), uint64(j.best.slot))
	w.Node(j.best.from)
	w.Int(j.best.priority)
	w.Node(j.target)
	if w.Is(j.lost != nil) { // only to repeat what it kept
		w.Node(j.lost.peer)
		w.Uint(j.lost.gen)
		j.lost.writeKept(w, self)
	}
}

// startJoin asks everybody for a parent, or for a better one, after so many rounds of
// that.
func (m *Machine) startJoin(rounds uint) {
	j := &join{rounds: rounds + 1, until: m.now + m.joinWait(rounds)}
	if m.join != nil {
		j.lost = m.join.lost
	}
	m.join = j
	if m.parent == nil {
		m.role = protocol.Joining
	}
	m.emitJoin()
}

// joinWait is how long offers are collected after so many rounds in vain. All members hear
// each question: where hundreds look for a place because the root, or the broker, is too busy to
// answer them, they must not cost more than members that have one. So the wait grows, up to
// one that is as many times the first as there are members.
func (m *Machine) joinWait(rounds uint) protocol.Duration {
	wait := m.timing.JoinWait << min(rounds, 3)
	if rounds >= maxRounds {
		wait = max(wait, min(m.timing.JoinWait*protocol.Duration(m.beacon.members), 4*m.timing.TTL))
	}
	return wait
}

// askSoonAgain ends the long waits of a search: the root answers.
func (m *Machine) askSoonAgain() {
	if j := m.join; j != nil && j.target.IsZero() {
		j.rounds, j.until = 0, min(j.until, m.now+m.timing.JoinWait)
	}
}

func (m *Machine) emitJoin() {
	msg := m.emit(protocol.KindJoin, protocol.Node{})
	msg.Priority = m.priority
	msg.Parent.ID = m.under
}

// onJoin offers ourselves to a newcomer if we rank above it.
func (m *Machine) onJoin(msg *protocol.Message) error {
	if m.role == protocol.Root && msg.Epoch.Compare(m.epoch) > 0 {
		m.out.Remembered = msg.Epoch.Number
	}
	above := comparePlace(m.priority, m.self, msg.Priority, msg.From) < 0
	switch {
	case m.role != protocol.Root && (m.role != protocol.Member || m.departing):
	case msg.From.ID == m.self.ID || slices.Contains(m.ancestors, msg.From):
	case msg.Parent.ID != "" && msg.Parent.ID != m.self.ID && m.role != protocol.Root:
	case msg.Parent.ID == "" && !above && m.role != protocol.Root:
	default:
		m.offer(msg.From)
	}
	return nil
}

// offer says what place we have to offer; to nobody in particular when a new
// root announces itself.
func (m *Machine) offer(to protocol.Node) {
	msg := m.emit(protocol.KindOffer, to)
	msg.Root, msg.Priority, msg.Depth, msg.Path = m.root, m.priority, m.depth, m.lineage()
	msg.Register = m.domain
	if m.role == protocol.Root {
		msg.Flags |= protocol.FlagRoot
	}
	if m.inheriting() {
		msg.Flags |= protocol.FlagInherits
	}
	if least := m.leastChild(); m.slots() > 0 {
		msg.Flags |= protocol.FlagFree
	} else if least != nil {
		msg.Least, msg.LeastP = least.peer, least.priority
	}
}

func (m *Machine) onOffer(msg *protocol.Message) error {
	m.claimed(msg, msg.Flags&protocol.FlagRoot != 0)
	switch {
	case m.role == protocol.Root:
		return m.onOtherRoot(msg)
	case m.session.number != 0 && msg.Register != m.domain && msg.Flags&protocol.FlagInherits == 0:
		return m.stale(msg, "of another register, while our session lasts")
	}
	newRoot := msg.Flags&protocol.FlagRoot != 0 && m.role == protocol.Member && msg.Epoch.Number > m.epoch.Number
	switch {
	case m.join == nil && !newRoot, slices.Contains(msg.Path, m.self), msg.Root.IsZero():
		return nil
	case msg.Epoch.Compare(m.epoch) < 0:
		return m.stale(msg, "an old epoch")
	}
	newer := msg.Epoch.Compare(m.epoch) > 0
	m.adoptEpoch(msg.Epoch, msg.Root)
	m.root = msg.Root
	if m.session.number == 0 || !m.reported { // who holds must tell a new root soon
		m.beat()
	}
	if m.join == nil {
		return nil
	}
	if newer {
		m.askSoonAgain() // this root answers, if the one before did not
	}
	o := offer{
		from: msg.From, priority: msg.Priority, depth: msg.Depth,
		root: msg.Flags&protocol.FlagRoot != 0, slot: full,
	}
	if msg.Flags&protocol.FlagFree != 0 {
		o.slot = free
	} else if !msg.Least.IsZero() && comparePlace(m.priority, m.self, msg.LeastP, msg.Least) < 0 {
		o.slot = displace
	}
	if m.under != "" && o.from.ID != m.under {
		return nil
	}
	if j := m.join; o.root && j.best.root && j.target == j.best.from && j.target != o.from { // the root before, which may have left
		j.target, j.best = protocol.Node{}, offer{}
	}
	if m.join.best.from.IsZero() || o.better(m.join.best) {
		m.join.best = o
	}
	m.progressJoin()
	return nil
}

// better prefers the better slot, then the least deep, then the one closest to us in
// priority, then the one that was started first: where members come and go it is the most
// likely to stay.
func (o offer) better(b offer) bool {
	return cmp.Or(
		cmp.Compare(o.slot, b.slot),
		cmp.Compare(o.depth, b.depth),
		cmp.Compare(b.priority, o.priority),
		cmp.Compare(o.from.Incarnation, b.from.Incarnation),
		b.from.Compare(o.from),
	) < 0
}

// progressJoin attaches to the best candidate as soon as nothing better can come.
func (m *Machine) progressJoin() {
	j := m.join
	if j == nil || !j.target.IsZero() || j.best.from.IsZero() || m.session.number == 0 {
		return
	}
	if m.now < j.until && !(j.best.root && j.best.slot == free) && m.under == "" {
		return
	}
	if m.parent != nil && (j.best.from == m.parent.peer || j.best.depth+1 >= m.depth) {
		m.join = nil // no better place than ours
		return
	}
	m.attach(j.best.from)
}

func (m *Machine) attach(to protocol.Node) {
	for _, l := range m.children { // who was our child may be our parent now: no number twice between us
		m.linkGen = max(m.linkGen, l.gen)
	}
	m.linkGen++
	m.join.target, m.join.until = to, m.now+4*m.timing.JoinWait
	msg := m.emit(protocol.KindAttach, to)
	msg.Link, msg.Priority, msg.Session = m.linkGen, m.priority, m.session.number
	if m.departing {
		msg.Flags |= protocol.FlagParting
	}
}

// asked reports whether msg answers our Attach.
func (m *Machine) asked(msg *protocol.Message) bool {
	return m.join != nil && m.join.target == msg.From && m.linkGen == msg.Link
}

func (m *Machine) onRefuse(msg *protocol.Message) error {
	switch j := m.join; {
	case !m.asked(msg):
	case m.departing && m.parent == nil: // nobody has to confirm that we leave
		m.finish()
	default:
		j.target, j.best, j.rounds = protocol.Node{}, offer{}, 0
		j.until = m.now + m.timing.JoinWait // then ask again: there are members that answer
	}
	return nil
}

// redirected moves us where our parent says; nobody means anywhere.
func (m *Machine) redirected(to protocol.Node) {
	switch {
	case to.IsZero():
		m.orphan()
	case m.under == "" && m.session.number != 0 && m.child(to) == nil && to != m.self:
		m.startJoin(0)
		m.attach(to)
	}
}
