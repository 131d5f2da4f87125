package sim

import (
	"padme/qosmutex/protocol"
)

// packet is a message on its way: encoded or, in a Fast scenario, copied.
type packet struct {
	wire    *[]byte           // either this
	copied  *protocol.Message // or this
	from    int32
	conn    uint32 // connection of the receiver when it was sent
	counted bool
}

// keptPackets free packets keep their memory, for reuse. A burst, such as
// everybody joining at once, should not hold memory for ever.
const keptPackets = 512

// packet takes a free slot, one with memory before one without.
func (s *Sim) packet() int32 {
	free := &s.freePackets
	if len(*free) == 0 {
		free = &s.barePackets
	}
	if n := len(*free); n > 0 {
		slot := (*free)[n-1]
		*free = (*free)[:n-1]
		return slot
	}
	s.packets = append(s.packets, packet{})
	return int32(len(s.packets) - 1)
}

func (s *Sim) freePacket(slot int32) {
	if len(s.freePackets) < keptPackets {
		s.freePackets = append(s.freePackets, slot)
		return
	}
	s.packets[slot].wire, s.packets[slot].copied = nil, nil
	if s.barePackets = append(s.barePackets, slot); len(s.barePackets)+keptPackets == len(s.packets) {
		s.packets, s.freePackets, s.barePackets = nil, nil, nil // nothing is under way: even the slots go
	}
}

// pack puts the message that is being sent into p.
func (s *Sim) pack(p *packet, m *protocol.Message) {
	if !s.scenario.Fast {
		if p.wire == nil {
			p.wire = new([]byte)
		}
		*p.wire = append((*p.wire)[:0], s.wire...)
		return
	}
	if p.copied == nil {
		p.copied = new(protocol.Message)
	}
	copyMessage(p.copied, m)
}

// unpack returns the message in p. It is good until the packet is freed or the
// next one is unpacked.
func (s *Sim) unpack(p *packet) (*protocol.Message, error) {
	if s.scenario.Fast {
		return p.copied, nil
	}
	err := s.decoder.Decode(*p.wire, &s.message)
	return &s.message, err
}

// copyMessage makes dst equal to src, without sharing memory: the slices of src
// belong to the machine that sent it.
func copyMessage(dst, src *protocol.Message) {
	path, entries, wishes, schedule := dst.Path[:0], dst.Entries[:0], dst.Wishes[:0], dst.Schedule[:0]
	tokens, sessions, resources := dst.Tokens[:0], dst.Sessions[:0], dst.Settings.Resources[:0]
	*dst = *src
	dst.Path = append(path, src.Path...)
	dst.Entries = append(entries, src.Entries...)
	dst.Wishes = append(wishes, src.Wishes...)
	dst.Schedule = append(schedule, src.Schedule...)
	dst.Sessions = append(sessions, src.Sessions...)
	dst.Settings.Resources = append(resources, src.Settings.Resources...)
	dst.Tokens = append(tokens, src.Tokens...)
}
