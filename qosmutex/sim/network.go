package sim

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// packet is a message on its way, encoded.
type packet struct {
	wire    []byte
	from    int32
	conn    uint32 // connection of the receiver when it was sent
	counted bool
}

// pair is an ordered pair of participants.
type pair struct{ from, to int32 }

// arrival is when the last message of a pair comes.
type arrival struct {
	at   protocol.Time
	rank uint32
}

// send puts a message on its way to its receiver, or to everybody else.
func (s *Sim) send(from int32, m *protocol.Message) {
	s.maxEpoch = max(s.maxEpoch, m.Epoch.Number)
	if s.measuring() {
		s.result.Sent[m.Kind]++
		if m.Kind.Counted() {
			s.result.Counted++
		}
	}
	s.noteMessage(Sent, from, m.To.ID, m)
	s.wire = protocol.AppendMessage(s.wire[:0], m)
	if !m.To.IsZero() {
		to, ok := s.index[m.To.ID]
		if !ok {
			s.violate("%s sends a %v to %q, who does not take part", s.nodes[from].ID, m.Kind, m.To.ID)
			return
		}
		s.transmit(from, to, m)
		return
	}
	for to := range s.nodes {
		if int32(to) != from {
			s.transmit(from, int32(to), m)
		}
	}
}

// transmit decides the fate of one copy of s.wire.
func (s *Sim) transmit(from, to int32, m *protocol.Message) {
	net := &s.scenario.Network
	if s.nodes[from].cut || s.nodes[to].cut || net.Loss > 0 && s.random.Float64() < net.Loss {
		s.result.LostMessages++
		s.noteMessage(Lost, from, s.nodes[to].ID, m)
		return
	}
	s.dispatch(from, to, m)
	if net.Duplicate > 0 && s.random.Float64() < net.Duplicate {
		s.noteMessage(Duplicated, from, s.nodes[to].ID, m)
		s.dispatch(from, to, m)
	}
}

func (s *Sim) dispatch(from, to int32, m *protocol.Message) {
	net := &s.scenario.Network
	e := event{at: s.now + net.Latency, kind: eventDeliver, node: to, slot: s.packet()}
	e.rank = s.rank(eventDeliver)
	if net.Jitter > 0 {
		e.at += protocol.Duration(s.random.Int64N(int64(net.Jitter) + 1))
	}
	if !net.Reorder {
		s.line(pair{from, to}, &e)
	}
	p := &s.packets[e.slot]
	p.wire = append(p.wire[:0], s.wire...)
	p.from, p.conn, p.counted = from, s.nodes[to].conn, m.Kind.Counted()
	if p.counted {
		s.counted++
	}
	s.seq++
	e.seq = s.seq
	s.events.push(e)
}

// line puts e behind the message of the same pair that was sent before.
func (s *Sim) line(p pair, e *event) {
	last, ok := s.order[p]
	if ok && e.at <= last.at {
		if e.at < last.at || e.rank < last.rank {
			e.rank = last.rank
		}
		e.at = last.at
	}
	s.order[p] = arrival{e.at, e.rank}
}

func (s *Sim) packet() int32 {
	if n := len(s.freePackets); n > 0 {
		slot := s.freePackets[n-1]
		s.freePackets = s.freePackets[:n-1]
		return slot
	}
	s.packets = append(s.packets, packet{})
	return int32(len(s.packets) - 1)
}

// deliver hands a packet to its receiver, unless that is not there, or the
// connection that it was sent to has ended.
func (s *Sim) deliver(to, slot int32) {
	p := &s.packets[slot]
	n := &s.nodes[to]
	if p.counted {
		s.counted--
	}
	s.freePackets = append(s.freePackets, slot)
	// Step sends into other packets only after the machine is done with this one,
	// which is decoded here.
	if err := s.decoder.Decode(p.wire, &s.message); err != nil {
		s.violate("%s sent a message that cannot be read: %v", s.nodes[p.from].ID, err)
		return
	}
	if n.machine == nil || n.cut || n.conn != p.conn {
		s.result.LostMessages++
		s.noteMessage(Lost, p.from, n.ID, &s.message)
		return
	}
	s.noteMessage(Delivered, p.from, n.ID, &s.message)
	s.in = protocol.Input{Kind: protocol.Receive, Message: &s.message}
	s.cause = s.message.Kind
	s.feed(to)
	s.cause = protocol.KindNone
}

// begin checks, when the workload starts, that everybody has a place.
func (s *Sim) begin() {
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.machine == nil || n.Joins > s.now || len(n.workload.Resources) == 0 {
			continue
		}
		if role := n.machine.Status().Role; role != protocol.Member && role != protocol.Root {
			s.fail(fmt.Errorf("%w: %s is still %v at %s: raise Start", ErrScenario, n.ID, role, seconds(s.now)))
		}
	}
}

func (s *Sim) measuring() bool { return s.now >= s.scenario.Start && s.now < s.end() }
