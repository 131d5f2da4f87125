package explore

import (
	"padme/qosmutex/candidate"
	"padme/qosmutex/canonical"
	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// machine is what a participant runs: a [padme.Machine], or a [candidate.Machine].
type machine interface {
	protocol.Machine
	AppendState(dst []byte, now protocol.Time, names *canonical.Names) []byte
	CheckInvariants() error
	CheckAtRest() error
	Parent() protocol.Node
	ValidUntil() protocol.Time
	ActsUntil() protocol.Time
	HasToken(resource string) bool
	Term() (protocol.Role, protocol.Epoch)
	Own(ref uint64) protocol.RequestID
	Knows(id protocol.RequestID) bool
}

// wall is what the clock shows where the topic is created.
const wall = 1_780_272_000 * 1_000_000

func (w *world) newMachine(i int, cfg protocol.Config) (machine, error) {
	if !w.cfg.Register || !cfg.Candidate {
		return padme.New(cfg)
	}
	return candidate.New(candidate.Config{Protocol: cfg, Lease: lease.Config{
		Create: i == 0, Rank: i, Wall: wall, Seed: uint64(i)<<32 | uint64(w.nodes[i].runs),
	}})
}

// twin copies a machine.
func twin(m machine) machine {
	if c, ok := m.(*candidate.Machine); ok {
		return c.Clone()
	}
	return m.(*padme.Machine).Clone()
}
