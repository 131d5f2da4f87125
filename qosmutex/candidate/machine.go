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
// WakeAt that is not in the future: what one part says to the other takes a step of
// its own. It MUST handle an Output before it asks the register what Request says.
type Machine struct {
	*padme.Machine
	lease        *lease.Machine
	out          lease.Output
	request      lease.Request // not handed out yet
	told         []protocol.Input
	wakeAt       protocol.Time // of the lease
	known        lease.Entry   // of the record, as the register said last
	successor    protocol.Node // whom the record is about to name, since we yielded; zero: none
	rank         int
	trust        bool            // a suspected participant has ended
	members      []protocol.Node // of Config, until the first appointment
	membersKnown bool
	started      bool
	announce     protocol.Duration // of Config
	announceAt   protocol.Time     // at the root
	leaving      bool
	barred       bool // as the PADME machine was told
	news         News
}

// News is what a machine has to tell of its topic since it was asked last.
type News struct {
	Absent       bool                // the topic has no record, and this participant may not create it
	Disagreement *lease.Disagreement // settings are declared already, and others
	Elsewhere    *lease.Elsewhere    // a root of another register keeps this participant from being the root
	Err          error               // the register gave an answer that it must not give
}

// Config is what a Machine is made from, beyond what both of its parts need.
type Config struct {
	Protocol protocol.Config // of the participant; Candidate is set, and Settings are for a topic that it creates
	Lease    lease.Config    // Self, Drift, TTL and Settings are those of Protocol
	// Members, if Known, are those who may hold by the word of a former root that was in
	// the place of this participant.
	Members []protocol.Node
	Known   bool
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
	return &Machine{Machine: pm, lease: lm, trust: p.TrustSuspect, announce: cfg.Announce, members: cfg.Members, membersKnown: cfg.Known, rank: l.Rank, wakeAt: protocol.Never}, nil
}

// Status implements [protocol.Machine]. A participant has departed once the record
// names it no more, or the register does not answer.
func (m *Machine) Status() protocol.Status {
	s := m.Machine.Status()
	if s.Role == protocol.Departed && !m.lease.Status().Departed {
		s.Role = protocol.Joining
	}
	return s
}

// Record returns the record of the topic as the register said last; its version's
// Counter is 0 if there is none, or it is not known.
func (m *Machine) Record() lease.Entry { return m.known }

// Elsewhere reports whether a root of another register keeps this participant from being
// the root.
func (m *Machine) Elsewhere() bool { return m.lease.Elsewhere() }

// News returns what there is to tell since the last call.
func (m *Machine) News() News {
	n := m.news
	m.news = News{}
	return n
}

// Pending reports whether the machine wants a Tick at once.
func (m *Machine) Pending() bool { return len(m.told) > 0 }

// Request returns what to ask of the register, once; Kind is NoRequest if there is
// nothing. While the machine has something to say to itself it asks nothing.
func (m *Machine) Request() lease.Request {
	if len(m.told) > 0 {
		return lease.Request{}
	}
	r := m.request
	m.request = lease.Request{}
	return r
}

// Answer takes what the register answered: a ReadDone or WriteDone.
func (m *Machine) Answer(now protocol.Time, in *lease.Input, out *protocol.Output) {
	out.Reset()
	m.tell(now, in)
	m.wake(now, out)
}

// Step implements [protocol.Machine].
func (m *Machine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if !m.started {
		m.started = true
		m.tell(now, &lease.Input{Kind: lease.Tick})
	}
	if in.Kind == protocol.Tick && len(m.told) > 0 {
		first := m.told[0]
		m.told = m.told[1:]
		err := m.Machine.Step(now, &first, out)
		m.carriedOut(now, &first, err)
		m.listen(now, out)
		m.wake(now, out)
		return nil // not the caller's input
	}
	err := m.Machine.Step(now, in, out)
	if in.Kind == protocol.Suspect && m.trust && in.Node != m.self() {
		m.tell(now, &lease.Input{Kind: lease.Died, Node: in.Node})
	}
	m.listen(now, out)
	m.wake(now, out)
	return err
}

// wake has the driver step when either part needs it.
func (m *Machine) wake(now protocol.Time, out *protocol.Output) {
	if now >= m.wakeAt {
		m.tell(now, &lease.Input{Kind: lease.Tick})
	}
	if e := m.lease.Elsewhere(); e != m.barred {
		m.barred = e
		if e {
			m.say(protocol.Input{Kind: protocol.Bar})
		} else {
			m.say(protocol.Input{Kind: protocol.Unbar})
		}
	}
	out.WakeAt = min(m.Machine.WakeAt(), m.wakeAt, m.announcement(now))
	if len(m.told) > 0 {
		out.WakeAt = now
	}
}

// announcement is when the root is to tell that it is there.
func (m *Machine) announcement(now protocol.Time) protocol.Time {
	if m.announce == 0 || m.ActsUntil() == 0 {
		return protocol.Never
	}
	if now >= m.announceAt {
		m.announceAt = now + m.announce
		m.say(protocol.Input{Kind: protocol.Announce})
	}
	return m.announceAt
}
