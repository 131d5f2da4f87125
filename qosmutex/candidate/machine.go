package candidate

import (
	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// Machine is a participant that can become the root. It is not safe for concurrent
// use.
//
// The driver MUST Step again with a Tick, before any other input, when an Output has a
// WakeAt that is not in the future: what the lease tells the PADME machine takes a step
// for each input. It MUST handle an Output before it asks the register what Request says.
type Machine struct {
	*padme.Machine
	lease      *lease.Machine
	told       []protocol.Input // by the lease, and not taken yet
	request    lease.Request    // not handed out yet
	known      bool             // when it was appointed last, it knew who may hold by the word of the root before
	trust      bool             // a suspected participant has ended
	announce   protocol.Duration
	announceAt protocol.Time // at the root
}

// Config is what a Machine is made from, beyond what both of its parts need.
type Config struct {
	Protocol protocol.Config // of the participant; Candidate is set, and Settings are for a topic that it creates
	Lease    lease.Config    // Self, Drift, TTL and Settings are those of Protocol
	// Announce is how often a root tells everybody that it is there, so that it is heard
	// by a root of another register; 0: only when it begins, and after a reconnection.
	Announce protocol.Duration
}

// New makes a machine. It does nothing until its first Step.
func New(cfg Config) (*Machine, error) {
	p, l := cfg.Protocol, cfg.Lease
	p.Candidate = true
	l.Self, l.Drift, l.TTL, l.Settings = p.Self, p.Timing.Drift, p.Timing.TTL, p.Settings
	if l.Lease == 0 {
		l.Lease = p.Timing.TTL / 2
	}
	pm, err := padme.New(p)
	if err != nil {
		return nil, err
	}
	lm, err := lease.New(l)
	if err != nil {
		return nil, err
	}
	return &Machine{Machine: pm, lease: lm, trust: p.TrustSuspect, announce: cfg.Announce}, nil
}

// Status implements [protocol.Machine]. A participant has departed once the record
// names it no more, or the register does not answer.
func (m *Machine) Status() protocol.Status { return m.recorded(m.Machine.Status()) }

// Overview is Status without the resources, as of [padme.Machine].
func (m *Machine) Overview() protocol.Status { return m.recorded(m.Machine.Overview()) }

func (m *Machine) recorded(s protocol.Status) protocol.Status {
	if s.Role == protocol.Departed && !m.lease.Status().Departed {
		s.Role = protocol.Joining
	}
	return s
}

// TTL is the topic's, as its record has it; 0: none was read.
func (m *Machine) TTL() protocol.Duration { return m.lease.Status().Entry.Record.TTL }

// Elsewhere reports whether a root of another register keeps this participant from being
// the root.
func (m *Machine) Elsewhere() bool { return m.lease.Elsewhere() }

// MembersKnown reports whether the members of before counted when this participant was appointed last.
func (m *Machine) MembersKnown() bool { return m.known }

// Pending reports whether the machine wants a Tick at once.
func (m *Machine) Pending() bool { return len(m.told) > 0 }

// Request returns what to ask of the register, once; Kind is NoRequest if there is
// nothing. While the PADME machine has something to hear from the lease it asks nothing.
func (m *Machine) Request() lease.Request {
	if len(m.told) > 0 {
		return lease.Request{}
	}
	r := m.request
	m.request = lease.Request{}
	return r
}

// Answer takes what the register answered. The error says what it must not answer.
func (m *Machine) Answer(now protocol.Time, a *lease.Answer, out *protocol.Output) error {
	out.Reset()
	return m.tell(now, &lease.Input{Answer: a}, out)
}

// Step implements [protocol.Machine].
func (m *Machine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	told := in.Kind == protocol.Tick && len(m.told) > 0
	if told {
		first := m.told[0]
		in, m.told = &first, m.told[1:]
		if in.Kind == protocol.Appointed {
			m.known = in.Lease.Known
		}
	}
	err := m.Machine.Step(now, in, out)
	follows := lease.Input{Said: out}
	switch role, _ := m.Term(); {
	case role == protocol.Departed:
		follows.Resign = true
	case in.Kind == protocol.Suspect && m.trust:
		follows.Died = in.Node
	case in.Kind == protocol.Yield && err == nil: // not before: it must not grant when the record names another
		follows.Successor = in.Node
	}
	_ = m.tell(now, &follows, out)
	if !out.Successor.IsZero() {
		m.told = append(m.told, protocol.Input{Kind: protocol.Yield, Node: out.Successor})
		out.WakeAt = now
	}
	if told {
		return nil // not the caller's input
	}
	return err
}

// tell steps the lease, and has the driver step when either part needs it.
func (m *Machine) tell(now protocol.Time, in *lease.Input, out *protocol.Output) error {
	var follows lease.Output
	err := m.lease.Step(now, in, &follows)
	m.told = append(m.told, follows.Tell...)
	if follows.Request.Kind != lease.NoRequest {
		m.request = follows.Request
	}
	out.WakeAt = min(m.Machine.WakeAt(), follows.WakeAt, m.announcement(now))
	if len(m.told) > 0 {
		out.WakeAt = now
	}
	return err
}

// announcement is when the root is to tell that it is there.
func (m *Machine) announcement(now protocol.Time) protocol.Time {
	if m.announce == 0 || m.ActsUntil() == 0 {
		return protocol.Never
	}
	if now >= m.announceAt {
		m.announceAt = now + m.announce
		m.told = append(m.told, protocol.Input{Kind: protocol.Announce})
	}
	return m.announceAt
}
