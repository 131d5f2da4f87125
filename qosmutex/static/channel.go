package static

import (
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Bounds of a channel.
const (
	// repeatMost bounds the time between two repetitions to a silent peer.
	repeatMost = protocol.Second
	// window bounds the messages of one repetition. The next ones follow at once when
	// all of them have come. A peer that has been silent for long is only asked with
	// the oldest, so that one that is not there costs a message a second.
	window = 64
	// maxUnanswered bounds what is kept for a peer.
	maxUnanswered = 1 << 14
)

// What a participant hears of a channel that is broken for good; each comes with
// ErrInvalid. The remedy is the same: end all members, then start them again.
var (
	// ErrIncarnation says that one of the two was started again, which the other has
	// known before.
	ErrIncarnation = errors.New("static: a participant that was started again")
	// ErrGivenUp says that more has been sent to a peer without an answer than is kept.
	ErrGivenUp = errors.New("static: a participant that was silent for too long")
	// ErrMembers says that the sender has another list of members, another tree or
	// another algorithm.
	ErrMembers = errors.New("static: a participant that disagrees about members, tree or algorithm")
)

// OverLossyChannels gives a static algorithm the channels that it assumes on a
// network that loses, doubles and reorders messages, or whose participants start
// at different times: messages between two participants are numbered, kept until
// a receipt comes and repeated. Receipts ride on other messages where there are
// any.
//
// Three channels are closed for good, and every message on them is an error: to a
// participant that comes back as another incarnation (ErrIncarnation), since its
// peers remember promises that it has forgotten; to one for which 16384 messages
// wait (ErrGivenUp); and to one that has other Members (ErrMembers).
//
// Who departs is Departed when all that it ever heard of have sent receipts for
// everything; the caller bounds how long it waits for that.
func OverLossyChannels(a protocol.Algorithm) protocol.Algorithm {
	inner := a.New
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := inner(cfg)
		if err != nil {
			return nil, err
		}
		c := &channels{
			machine: m, self: cfg.Self, tie: kinship(a.Name, &cfg), hop: max(cfg.Timing.Hop, protocol.Millisecond),
			wakeAt: protocol.Never,
		}
		for _, id := range cfg.Members {
			if id != cfg.Self.ID {
				c.peers = append(c.peers, &peer{id: id, repeatAt: protocol.Never, receiptAt: protocol.Never})
			}
		}
		slices.SortFunc(c.peers, func(a, b *peer) int { return compareID(a.id, b.id) })
		return c, nil
	}
	return a
}

// channels is a machine between the algorithm's and the network.
type channels struct {
	machine protocol.Machine
	self    protocol.Node
	tie     uint64 // the Tie of all messages: those of members that agree
	hop     protocol.Duration
	peers   []*peer       // by id
	wakeAt  protocol.Time // of the inner machine
	stale   uint64
	resent  uint64
}

// peer is one end of the channel to another participant.
type peer struct {
	id          string
	incarnation uint64 // 0: not heard of yet
	givenUp     bool

	sent, acked uint64
	kept        []protocol.Message // acked+1 … sent; their slices are owned
	repeatAt    protocol.Time
	patience    protocol.Duration
	more        uint64 // when this has come, the rest is repeated at once; 0: there was no rest

	received  uint64
	receiptAt protocol.Time // a receipt is owed
}

// Step implements [protocol.Machine].
func (c *channels) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	var err error
	switch {
	case in.Kind == protocol.Receive:
		err = c.receive(now, in, out)
	case in.Kind == protocol.Reconnect:
		out.Reset()
		for _, p := range c.peers { // what was under way is lost
			if len(p.kept) > 0 {
				p.repeatAt, p.patience = now, 4*c.hop
			}
		}
	case in.Kind == protocol.Tick && now < c.wakeAt && c.wakeAt != protocol.Never:
		out.Reset() // a timer of ours
	default:
		err = c.feed(now, in, out)
	}
	c.timers(now, out)
	return err
}

// feed steps the inner machine and numbers what it sends.
func (c *channels) feed(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	err := c.machine.Step(now, in, out)
	c.wakeAt = out.WakeAt
	sent := out.Messages
	out.Messages = sent[:0]
	for i := range sent {
		m := &sent[i]
		p := c.peer(m.To.ID)
		if p == nil || !p.keep(m) {
			continue
		}
		p.address(m, c.tie)
		if p.repeatAt == protocol.Never {
			p.patience = 4 * c.hop
			p.repeatAt = now + p.patience
		}
		out.Messages = append(out.Messages, *m)
	}
	return err
}

// receive lets a message through to the inner machine once, and in order.
func (c *channels) receive(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	m := in.Message
	p := c.peer(m.From.ID)
	if err := c.check(p, m); err != nil {
		c.stale++
		return fmt.Errorf("%w: %v from %v: %w", ErrInvalid, m.Kind, m.From, err)
	}
	if p.incarnation == 0 {
		p.incarnation = m.From.Incarnation
		if len(p.kept) > 0 { // it may have come just now
			p.repeatAt, p.patience = now, 4*c.hop
		}
	}
	p.ack(m.Ack, now, 4*c.hop)
	switch {
	case m.Kind == protocol.KindReceipt:
		return nil
	case m.Seq == p.received+1:
		p.received++
		p.owe(now + c.hop)
		return c.feed(now, in, out)
	case m.Seq <= p.received:
		c.stale++
		p.owe(now) // our receipt was lost
	default:
		c.stale++ // a gap: repetition fills it
	}
	return nil
}

var errStranger = errors.New("not from a participant to us")

// check tells why a message does not belong to the channel of p.
func (c *channels) check(p *peer, m *protocol.Message) error {
	switch {
	case p == nil || m.To.ID != c.self.ID:
		return errStranger
	case m.Epoch.Tie != c.tie && m.Epoch.Tie != 0: // 0: it does not say
		return ErrMembers
	case p.givenUp:
		return ErrGivenUp
	case p.incarnation != 0 && p.incarnation != m.From.Incarnation,
		m.To.Incarnation != 0 && m.To.Incarnation != c.self.Incarnation:
		return ErrIncarnation
	}
	return nil
}

// timers sends the receipts and repetitions that are due.
func (c *channels) timers(now protocol.Time, out *protocol.Output) {
	out.WakeAt = c.wakeAt
	for _, p := range c.peers {
		if p.repeatAt <= now {
			n := min(len(p.kept), window)
			if p.patience == repeatMost {
				n = min(n, 1)
			}
			for i := range n {
				out.Messages = append(out.Messages, p.kept[i])
				p.address(&out.Messages[len(out.Messages)-1], c.tie)
			}
			c.resent += uint64(n)
			if p.more = 0; n < len(p.kept) {
				p.more = p.acked + uint64(n)
			}
			p.patience = min(2*p.patience, repeatMost)
			p.repeatAt = now + p.patience
		}
		if p.receiptAt <= now {
			m := protocol.Message{Kind: protocol.KindReceipt, From: c.self, To: protocol.Node{ID: p.id}}
			p.address(&m, c.tie)
			out.Messages = append(out.Messages, m)
		}
		out.WakeAt = min(out.WakeAt, p.repeatAt, p.receiptAt)
	}
}

// kinship is a number (FNV-1a) for what all members must agree about.
func kinship(algorithm string, cfg *protocol.Config) uint64 {
	h := uint64(14695981039346656037)
	add := func(s string) {
		for _, b := range []byte(s) {
			h = (h ^ uint64(b)) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // ends a name: it is in no UTF-8
	}
	add(algorithm)
	for _, id := range cfg.Members {
		add(id)
	}
	add(fmt.Sprint(cfg.Fanout, cfg.Parents))
	return h
}

func (p *peer) owe(at protocol.Time) { p.receiptAt = min(p.receiptAt, at) }

// address completes a message to p, or one that is repeated.
func (p *peer) address(m *protocol.Message, tie uint64) {
	m.To.Incarnation, m.Ack, m.Epoch.Tie = p.incarnation, p.received, tie
	p.receiptAt = protocol.Never
}

// keep numbers m and stores a copy for repetition. It returns false if nothing can
// be sent to the peer any more: what did not fit here would be missing for ever.
func (p *peer) keep(m *protocol.Message) bool {
	if len(p.kept) >= maxUnanswered {
		p.givenUp = true
		p.kept, p.repeatAt, p.receiptAt = nil, protocol.Never, protocol.Never
	}
	if p.givenUp {
		return false
	}
	p.sent++
	m.Seq = p.sent
	k := *m
	k.Path, k.Wishes = slices.Clone(m.Path), slices.Clone(m.Wishes)
	p.kept = append(p.kept, k)
	return true
}

// ack forgets what the peer has. A peer that answers gets patience for the rest, or
// at once what did not fit the last repetition.
func (p *peer) ack(upTo uint64, now protocol.Time, patience protocol.Duration) {
	if upTo <= p.acked || upTo > p.sent {
		return
	}
	n := upTo - p.acked
	clear(p.kept[:n])
	p.kept, p.acked = p.kept[n:], upTo
	switch {
	case len(p.kept) == 0:
		p.kept, p.repeatAt = nil, protocol.Never
	case p.more != 0 && upTo >= p.more:
		p.repeatAt, p.patience = now, patience
	default:
		p.repeatAt, p.patience = now+patience, patience
	}
}

// unanswered reports whether somebody who has been heard may miss something.
func (c *channels) unanswered() bool {
	return slices.ContainsFunc(c.peers, func(p *peer) bool { return p.incarnation != 0 && len(p.kept) > 0 })
}

func (c *channels) peer(id string) *peer {
	i, ok := slices.BinarySearchFunc(c.peers, id, func(p *peer, id string) int { return compareID(p.id, id) })
	if !ok {
		return nil
	}
	return c.peers[i]
}

// Status implements [protocol.Machine].
func (c *channels) Status() protocol.Status {
	s := c.machine.Status()
	s.Counters.Stale += c.stale
	s.Counters.Resent += c.resent
	if s.Role == protocol.Departed && c.unanswered() {
		s.Role = protocol.Member
	}
	return s
}

// CheckInvariants asks the algorithm.
func (c *channels) CheckInvariants() error {
	if i, ok := c.machine.(interface{ CheckInvariants() error }); ok {
		return i.CheckInvariants()
	}
	return nil
}

// ValidUntil and Resource are the algorithm's: see [Machine]. They are asked for often, so
// they must not cost a Status.
func (c *channels) ValidUntil() protocol.Time {
	if v, ok := c.machine.(interface{ ValidUntil() protocol.Time }); ok {
		return v.ValidUntil()
	}
	return c.machine.Status().ValidUntil
}

// Resource describes one resource as this participant knows it.
func (c *channels) Resource(name string, most int) (protocol.ResourceStatus, bool) {
	if r, ok := c.machine.(interface {
		Resource(string, int) (protocol.ResourceStatus, bool)
	}); ok {
		return r.Resource(name, most)
	}
	return protocol.ResourceStatus{}, false
}

func compareID(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
