package static

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Times of a channel.
const (
	// repeatMost bounds the time between two repetitions to a silent peer.
	repeatMost = protocol.Second
	// maxUnanswered bounds what is kept for a peer; one that is that far behind is
	// not there, and the algorithm waits for it anyway.
	maxUnanswered = 1 << 14
)

// OverLossyChannels gives a static algorithm the channels that it assumes on a
// network that loses, doubles and reorders messages, or whose participants start
// at different times: messages between two participants are numbered, kept until
// a receipt comes and repeated. Receipts ride on other messages where there are
// any. A participant that comes back as another incarnation is not answered:
// its peers remember promises that it has forgotten.
func OverLossyChannels(a protocol.Algorithm) protocol.Algorithm {
	inner := a.New
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := inner(cfg)
		if err != nil {
			return nil, err
		}
		c := &channels{machine: m, self: cfg.Self, hop: max(cfg.Timing.Hop, protocol.Millisecond), wakeAt: protocol.Never}
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

	sent, acked uint64
	kept        []protocol.Message // acked+1 … sent; their slices are owned
	repeatAt    protocol.Time
	patience    protocol.Duration

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
	for i := range out.Messages {
		m := &out.Messages[i]
		p := c.peer(m.To.ID)
		if p == nil {
			continue // no member: the network will say so
		}
		p.sent++
		m.Seq, m.Ack = p.sent, p.received
		p.receiptAt = protocol.Never
		p.keep(m)
		if p.repeatAt == protocol.Never {
			p.patience = 4 * c.hop
			p.repeatAt = now + p.patience
		}
	}
	return err
}

// receive lets a message through to the inner machine once, and in order.
func (c *channels) receive(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	m := in.Message
	p := c.peer(m.From.ID)
	switch {
	case p == nil || m.To.ID != c.self.ID:
		return fmt.Errorf("%w: %v from %v: not from a participant to us", ErrInvalid, m.Kind, m.From)
	case p.incarnation == 0:
		p.incarnation = m.From.Incarnation
	case p.incarnation != m.From.Incarnation:
		c.stale++
		return fmt.Errorf("%w: %v from %v: another incarnation", ErrInvalid, m.Kind, m.From)
	}
	p.ack(m.Ack)
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

// timers sends the receipts and repetitions that are due.
func (c *channels) timers(now protocol.Time, out *protocol.Output) {
	out.WakeAt = c.wakeAt
	for _, p := range c.peers {
		if p.repeatAt <= now {
			for i := range p.kept {
				out.Messages = append(out.Messages, p.kept[i])
				out.Messages[len(out.Messages)-1].Ack = p.received
				c.resent++
			}
			p.receiptAt = protocol.Never
			p.patience = min(2*p.patience, repeatMost)
			p.repeatAt = now + p.patience
		}
		if p.receiptAt <= now {
			p.receiptAt = protocol.Never
			out.Messages = append(out.Messages, protocol.Message{
				Kind: protocol.KindReceipt, From: c.self, To: protocol.Node{ID: p.id}, Ack: p.received,
			})
		}
		out.WakeAt = min(out.WakeAt, p.repeatAt, p.receiptAt)
	}
}

func (p *peer) owe(at protocol.Time) { p.receiptAt = min(p.receiptAt, at) }

// keep stores a copy of m for repetition.
func (p *peer) keep(m *protocol.Message) {
	if len(p.kept) >= maxUnanswered {
		return // it will never be complete again: the peer is gone
	}
	k := *m
	k.Path, k.Wishes = slices.Clone(m.Path), slices.Clone(m.Wishes)
	p.kept = append(p.kept, k)
}

// ack forgets what the peer has.
func (p *peer) ack(upTo uint64) {
	if upTo <= p.acked || upTo > p.sent {
		return
	}
	n := min(int(upTo-p.acked), len(p.kept))
	p.kept = slices.Delete(p.kept, 0, n)
	p.acked = upTo
	if len(p.kept) == 0 {
		p.repeatAt = protocol.Never
	}
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
	return s
}

// CheckInvariants asks the algorithm.
func (c *channels) CheckInvariants() error {
	if i, ok := c.machine.(interface{ CheckInvariants() error }); ok {
		return i.CheckInvariants()
	}
	return nil
}

// ValidUntil and Resource are the algorithm's: see [Machine].
func (c *channels) ValidUntil() protocol.Time { return c.machine.Status().ValidUntil }

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
