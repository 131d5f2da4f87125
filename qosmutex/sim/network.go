package sim

import (
	"fmt"
	"maps"

	"padme/qosmutex/protocol"
)

// pair is an ordered pair of participants.
type pair struct{ from, to int32 }

// arrival is when the last message of a pair comes.
type arrival struct {
	at   protocol.Time
	rank uint32
}

// send puts a message on its way to its receiver, or to everybody else.
func (s *Sim) send(from int32, m *protocol.Message) {
	if s.measuring() {
		s.result.sent(m.Kind)
	}
	s.noteMessage(Sent, from, m.To.ID, m)
	if !s.scenario.Fast {
		s.wire = protocol.AppendMessage(s.wire[:0], m)
	}
	name := m.To.ID
	if s.scenario.Fast && m.Kind == protocol.KindJoin {
		name = m.Parent.ID
	}
	if name != "" {
		to, ok := s.index[name]
		if !ok {
			s.violate("%s sends a %v to %q, who does not take part", s.nodes[from].ID, m.Kind, name)
			return
		}
		if s.nodes[to].ID != name { // it was replaced, and nobody has its name any more
			s.result.LostMessages++
			s.noteMessage(Lost, from, name, m)
			return
		}
		s.transmit(from, to, m)
		return
	}
	for to := range s.nodes {
		if n := &s.nodes[to]; int32(to) != from && (!n.Absent || n.machine != nil) {
			s.transmit(from, int32(to), m)
		}
	}
}

// transmit decides the fate of one copy of m.
func (s *Sim) transmit(from, to int32, m *protocol.Message) {
	net := &s.scenario.Network
	if s.apart(from, to) || net.Loss > 0 && s.random.Float64() < net.Loss {
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
	e := event{kind: eventDeliver, node: to, slot: s.packet()}
	if s.steady {
		e.at = s.now + s.transit
	} else {
		e.at = s.now + s.scenario.Network.Latency.between(s.random, from, to)
	}
	if len(s.stalls) > 0 {
		e.at = max(e.at, s.stalls[from], s.stalls[to])
	}
	e.rank = s.rank(eventDeliver)
	if s.lined {
		s.line(pair{from, to}, &e)
	}
	p := &s.packets[e.slot]
	s.pack(p, m)
	p.from, p.conn, p.counted = from, s.nodes[to].conn, m.Kind.Counted()
	if p.counted {
		s.counted++
	}
	s.seq++
	e.seq = s.seq
	s.events.push(e)
}

// useNetwork makes ready for the scenario's network, which may be another one than
// before. Where all messages take equally long they stay in order by themselves,
// unless some of the network before are still on their way.
func (s *Sim) useNetwork(another bool) {
	net := &s.scenario.Network
	d, same := net.Latency.(Distribution)
	same = same || net.Latency == nil
	s.steady, s.transit = same && d.shape == constant, d.a
	s.knownAfter = 0
	if net.Latency != nil {
		s.knownAfter = min(2*protocol.Duration(s.height), longest/(net.Latency.greatestOf()+1)) * net.Latency.greatestOf()
	}
	before := s.lined
	s.lined = !net.Reorder && (!s.steady || s.scenario.Order == Shuffled || another)
	if s.lined && !before {
		s.order = map[pair]arrival{}
		for i := range s.events {
			if e := s.events[i]; e.kind == eventDeliver {
				s.line(pair{s.packets[e.slot].from, e.node}, &e)
			}
		}
	}
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
	if len(s.order) > s.orderLimit {
		maps.DeleteFunc(s.order, func(_ pair, a arrival) bool { return a.at < s.now })
		s.orderLimit = max(2*len(s.order), leastOrder)
	}
}

// leastOrder is how many pairs are remembered before those are forgotten that have
// nothing on its way.
const leastOrder = 1024

// deliver hands a packet to its receiver, unless that is not there, or the
// connection that it was sent to has ended.
func (s *Sim) deliver(to, slot int32) {
	p := &s.packets[slot]
	n := &s.nodes[to]
	if p.counted {
		s.counted--
	}
	m, err := s.unpack(p)
	if err != nil {
		s.violate("%s sent a message that cannot be read: %v", s.nodes[p.from].ID, err)
		return
	}
	if n.machine == nil || !n.begun || n.cut || n.conn != p.conn {
		s.result.LostMessages++
		s.noteMessage(Lost, p.from, n.ID, m)
	} else {
		s.noteMessage(Delivered, p.from, n.ID, m)
		s.in = protocol.Input{Kind: protocol.Receive, Message: m}
		s.cause = m.Kind
		s.feed(to)
		s.cause = protocol.KindNone
	}
	s.freePacket(slot) // not before, because m is in it
}

// begin checks, when the workload starts, that everybody has a place.
func (s *Sim) begin() {
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.machine == nil || n.Joins > s.now || len(n.workload.Resources) == 0 {
			continue
		}
		if !n.home() {
			s.fail(fmt.Errorf("%w: %s is still %v at %s: raise Start", ErrScenario, n.ID, n.machine.Status().Role, seconds(s.now)))
		}
	}
}

func (s *Sim) measuring() bool { return s.now >= s.scenario.Start && s.now < s.end() }
