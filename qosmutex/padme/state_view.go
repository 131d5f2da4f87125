package padme

import "padme/qosmutex/protocol"

// outdated, times the TTL, is after how long no answer to a canvass is under way.
const outdated = 4

// ballot writes what a voter, or the root of voters, stands by.
func (s *scribe) ballot(m *Machine) {
	b := m.ballot
	if b == nil {
		return
	}
	s.electorate(&b.of)
	s.epoch(b.epoch)
	s.node(b.root)
	// A promise that is over matters until the last voter has had its turn, and until
	// the session that the same root gave is over.
	wait := max(m.timing.TTL, protocol.Duration(len(b.of.voters))*m.timing.JoinWait)
	s.int(int64(max(b.until-s.now, -wait)))
	s.named(SortFence, b.fences)
	s.epoch(b.bid)
	if b.bid.Number != 0 {
		s.flags(b.probe)
		s.age(b.sent, outdated*m.timing.TTL)
		s.nodes(b.ayes)
	}
	s.left(b.again)
	s.uint(b.above)
	if s.flags(b.reign != nil); b.reign != nil {
		s.reign(m, b.reign)
	}
}

func (s *scribe) electorate(v *electorate) {
	s.epoch(v.epoch)
	s.uint(v.version)
	s.nodes(v.voters)
}

func (s *scribe) reign(m *Machine, rg *reign) {
	s.flags(rg.old != nil, rg.confirmed, rg.started, rg.inherit != 0)
	s.nodes(rg.old)
	if !rg.started {
		s.left(rg.until)
	}
	s.left(rg.inherit)
	s.left(rg.next)
	s.named(SortFence, rg.fences)
	s.node(rg.heir)
	s.uint(uint64(len(rg.pledges)))
	for _, p := range rg.pledges {
		s.node(p.node)
		s.age(p.sent, m.timing.TTL) // a lease is no longer
		s.uint(p.version)
		s.named(SortFence, p.fences)
		s.flags(p.gone)
	}
}
