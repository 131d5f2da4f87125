package padme

import (
	"encoding/binary"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// maxUnacked bounds what a link keeps for repetition. A peer that acknowledges
// so little is treated as silent.
const maxUnacked = 1 << 14

// maxSought bounds among how many messages that are kept we look for one.
const maxSought = 64

// links are those to our neighbors in the tree.
type links struct {
	parent   *link
	children []*link // by node
	fanout   int     // how many we take
	linkGen  uint64  // of the newest link that we have asked for
}

func (k *links) clone() links {
	c := *k
	c.parent, c.children = k.parent.clone(), each(k.children, (*link).clone)
	return c
}

func (k *links) write(w *canonical.Writer, c *core) {
	w.Uint(k.linkGen)
	if w.Is(k.parent != nil) {
		k.parent.write(w, c)
	}
	w.Uint(uint64(len(k.children)))
	for _, l := range k.children {
		l.write(w, c)
		if w.Is(l.mute != 0) { // the parent's silence is noticed by the beacon
			w.Age(l.mute, max(c.grace(), c.heartbeat()+1))
		}
	}
}

// link is one end of the channel between a child and its parent. It numbers its
// messages, keeps them until they are acknowledged and repeats them on demand,
// so that a lost connection delays messages but neither loses, doubles nor
// reorders them. The child names each attachment with a generation; messages of
// another generation are dropped.
type link struct {
	peer     protocol.Node // never changes
	gen      uint64
	priority int64         // of the peer, as a participant
	session  uint64        // at the parent's end: the child's session
	mute     protocol.Time // at the parent's end: since when no beacon was answered; 0: the last one was

	sent, received uint64
	// What may have to be repeated is kept as bytes: a message in memory is ten
	// times as large, and there are two ends for each participant.
	kept    []byte // from start: the last unacked messages, each behind its length
	start   uint32
	unacked uint32

	parting bool          // at the parent's end: a child that is about to leave for good
	askedAt protocol.Time // when we asked for a repetition of received+1; 0: we have not
	leaveBy protocol.Time // at the parent's end: told to attach elsewhere, and told again then; 0: not
}

func (l *link) leaving() bool { return l.leaveBy != 0 }

const (
	lengthWidth = 4   // bytes of the length before each kept message
	roomForOne  = 256 // nearly every message takes less
	keptAtRest  = 512 // bytes that a link may hold on to when nothing is kept
)

// emitOn appends a message that travels on l; commit numbers it once its fields
// are set.
func (m *Machine) emitOn(l *link, kind protocol.Kind) *protocol.Message {
	msg := m.emit(kind, l.peer)
	msg.Link, msg.Ack = l.gen, l.received
	return msg
}

// commit numbers the last emitted message and keeps it until it is acknowledged.
func (m *Machine) commit(l *link, msg *protocol.Message) {
	l.sent++
	msg.Seq = l.sent
	l.keep(msg)
}

// keep notes msg down.
func (l *link) keep(msg *protocol.Message) {
	var room [roomForOne]byte
	b := protocol.AppendMessage(room[:lengthWidth], msg)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-lengthWidth))
	if len(l.kept)+len(b) > cap(l.kept) {
		l.kept, l.start = l.kept[:copy(l.kept, l.kept[l.start:])], 0
	}
	l.kept = append(l.kept, b...)
	l.unacked++
}

// ack forgets what the peer has received.
func (l *link) ack(upTo uint64) {
	acked := l.sent - uint64(l.unacked)
	if upTo <= acked || upTo > l.sent {
		return
	}
	for ; acked < upTo; acked++ {
		l.start += lengthWidth + binary.LittleEndian.Uint32(l.kept[l.start:])
		l.unacked--
	}
	if l.unacked > 0 {
		return
	}
	l.kept, l.start = l.kept[:0], 0
	if cap(l.kept) > keptAtRest { // a burst is over: give its memory back
		l.kept = nil
	}
}

// unacknowledged lists what the peer may not have received, oldest first, as it was
// sent.
func (l *link) unacknowledged() []protocol.Message {
	var decoder protocol.Decoder
	list := make([]protocol.Message, 0, l.unacked)
	for rest := l.kept[l.start:]; len(rest) > 0; {
		n := lengthWidth + int(binary.LittleEndian.Uint32(rest))
		var msg protocol.Message
		if decoder.Decode(rest[lengthWidth:n], &msg) == nil { // else no peer could read it either
			list = append(list, msg)
		}
		rest = rest[n:]
	}
	return list
}

// keeps reports whether a Release that says the same as rel is not acknowledged yet. It
// does not look through many: a flood of them would cost their square.
func (l *link) keeps(rel *protocol.Message) bool {
	return l.unacked <= maxSought && slices.ContainsFunc(l.unacknowledged(), func(o protocol.Message) bool {
		return o.Kind == rel.Kind && o.Flags == rel.Flags && o.Resource == rel.Resource && o.Grant == rel.Grant && slices.Equal(o.Entries, rel.Entries)
	})
}

// repeat sends again everything that was not acknowledged, with what the sender knows
// now, and not when it sent it first.
func (m *Machine) repeat(l *link) {
	for _, msg := range l.unacknowledged() {
		msg.Epoch, msg.Ack = m.epoch, l.received
		if msg.Kind != protocol.KindRequest { // that has the clock of its turn
			msg.Clock = max(m.clock, m.servedClock)
		}
		if msg.Within > 0 { // time has passed
			msg.Within = 1 // withdrawn since: the Withdraw follows
			if e := m.requests.get(msg.ID); e != nil {
				msg.Within = m.within(e)
			}
		}
		m.out.Messages = append(m.out.Messages, msg)
		m.counters.Sent[msg.Kind]++
		m.counters.Resent++
	}
}

// accept decides on a numbered message: true exactly once for each, in order.
func (m *Machine) accept(l *link, msg *protocol.Message) bool {
	l.mute = 0
	l.ack(msg.Ack)
	if msg.Seq == l.received+1 {
		l.received++
		l.askedAt = 0
		return true
	}
	m.counters.Stale++
	if msg.Seq > l.received { // else it is a repetition
		m.askRepeat(l)
	}
	return false
}

// askRepeat asks the peer for what is missing, at most once a heartbeat for the
// same gap.
func (m *Machine) askRepeat(l *link) {
	if l.askedAt != 0 && m.now < l.askedAt+m.timing.Heartbeat {
		return
	}
	l.askedAt = m.now
	m.emitOn(l, protocol.KindResend)
}

func (l *link) clone() *link {
	c := copied(l)
	if c != nil {
		c.kept = slices.Clone(l.kept)
	}
	return c
}

func (l *link) write(w *canonical.Writer, c *core) {
	w.Node(l.peer)
	w.Uint(l.gen, l.session)
	w.Int(l.priority)
	w.OnLink(c.self, l.peer, l.gen, l.sent)
	w.OnLink(l.peer, c.self, l.gen, l.received)
	if w.Flags(l.askedAt != 0, l.leaving(), l.parting); l.askedAt != 0 {
		w.Age(l.askedAt, c.timing.Heartbeat)
	}
	if l.leaving() {
		w.Left(l.leaveBy)
	}
	l.writeKept(w, c.self)
}

// kept writes what a link may have to repeat. The messages are numbered up to the
// last one sent, so how many there are says what is acknowledged.
func (l *link) writeKept(w *canonical.Writer, self protocol.Node) {
	w.Uint(uint64(l.unacked))
	for _, msg := range l.unacknowledged() {
		msg.Epoch, msg.Ack = protocol.Epoch{}, 0 // see repeat
		if msg.Kind != protocol.KindRequest {
			msg.Clock = 0
		}
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

// linkOf finds the link that a message belongs to.
func (k *links) linkOf(msg *protocol.Message) *link {
	if p := k.parent; p != nil && msg.From == p.peer && msg.Link == p.gen {
		return p
	}
	if l := k.child(msg.From); l != nil && l.gen == msg.Link {
		return l
	}
	return nil
}

// child returns the link to a child, or nil.
func (k *links) child(n protocol.Node) *link {
	if i, ok := k.searchChild(n); ok {
		return k.children[i]
	}
	return nil
}

func (k *links) searchChild(n protocol.Node) (int, bool) {
	return slices.BinarySearchFunc(k.children, n, func(l *link, n protocol.Node) int { return l.peer.Compare(n) })
}

// slots is how many more children we take.
func (k *links) slots() int {
	n := k.fanout
	for _, l := range k.children {
		if !l.leaving() {
			n--
		}
	}
	return n
}

func (k *links) leastChild() *link {
	var least *link
	for _, l := range k.children {
		if !l.leaving() && (least == nil || comparePlace(l.priority, l.peer, least.priority, least.peer) > 0) {
			least = l
		}
	}
	return least
}
