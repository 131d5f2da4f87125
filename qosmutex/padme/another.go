package padme

import "padme/qosmutex/protocol"

// One topic is to have one register. Where participants were given different ones, two
// of them can be told that they are the root: each register names its own. A register is
// told from another by the short form of its domain, which offers and answers to
// heartbeats carry. What follows from that for who may be the root is the business of
// package lease; here it decides whom a member follows:
//
//   - A member goes over to a root of another register when its session is over, so with
//     nothing held. One that takes over what it finds (FlagInherits) it follows at once,
//     and keeps what it holds.
//   - A root tells one that must give way to it that it is there.

// claimed reports what a message says of the root.
func (m *Machine) claimed(msg *protocol.Message, root bool) {
	if msg.Register != 0 {
		m.out.Claim = protocol.Claim{Register: msg.Register, Epoch: msg.Epoch, TTL: m.timing.TTL, Root: root}
	}
}

// waitForOtherRoot ends nothing of a member before another root has had time to tell us that it is there.
func (m *Machine) waitForOtherRoot() {
	soon := m.now + m.timing.JoinWait
	for _, s := range m.members {
		s.deadline = max(s.deadline, soon)
	}
	for _, r := range m.resources {
		if t := &r.tok; t.until != 0 && t.phase == below {
			t.until = max(t.until, soon)
		}
	}
}

// onOtherRoot answers a root of another register that has to give way: it may not have
// heard of us.
func (m *Machine) onOtherRoot(msg *protocol.Message) error {
	c := m.out.Claim
	if c.Root && c.Register != m.domain && m.acting() && !m.isFixedRoot && c.Epoch.Compare(m.epoch) < 0 {
		m.offer(msg.From)
	}
	return nil
}
