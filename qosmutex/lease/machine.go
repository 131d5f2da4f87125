package lease

import "padme/qosmutex/protocol"

// Machine is one candidate of one topic. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	now   protocol.Time
	start protocol.Time // the first Step
	began bool

	// The record, as the register said last.
	read  bool // it has been read
	known Entry
	since protocol.Time // when its version was first learnt
	heard heard
	born  protocol.Time // the register is older than that
	other other
	later uint64 // term that somebody remembers

	// Requests.
	asked   asked
	pending pending
	again   protocol.Time // no request before it
	lastGet protocol.Time // when the record was last asked for
	look    bool          // ask for it: it says something new
	nonces  uint64

	// This participant.
	acting    acting
	spent     uint64             // the newest term in which it was the root
	echo      protocol.Time      // when it sent what it heard last of itself; 0: it has heard nothing
	hearing   protocol.Time      // since when it has heard itself without a gap
	wanted    *protocol.Settings // that the root is to write
	fence     uint64             // the root needs fences up to it; 0: those it has
	successor protocol.Node      // who is to be the root, since this one stopped for it
	barred    bool               // as the lock machine was told
	leaving   bool
	leaveBy   protocol.Time
	departed  bool
	dead      protocol.Node // has ended
	deadAt    protocol.Time
}

// heard is a version that the root named, and the register was not asked about since.
type heard struct {
	on      bool
	version Version
	at      protocol.Time
}

// asked is the request that is not answered yet.
type asked struct {
	kind RequestKind
	at   protocol.Time
}

// pending is a write that is not known to be made, nor known not to be.
type pending struct {
	Write
	on      bool
	unknown bool          // an attempt had no answer: it may take effect at any time
	first   protocol.Time // the first attempt
	heard   protocol.Time // when the version that it replaces was first learnt
	fence   uint64        // the first of the term, if it begins one
	restart bool          // it replaces the record of the process that was here before, as the root of one of the terms Config.HeldIn
}

// acting is the time in which this participant is the root.
type acting struct {
	on      bool
	until   protocol.Time
	renewed protocol.Time // the first send of the newest write that is known to be made
	began   protocol.Time
}

// New returns a machine that has read nothing yet.
func New(cfg Config) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg}, nil
}

// Status is a snapshot.
type Status struct {
	Acting   bool // it is the root as long as its clock is below Until
	Until    protocol.Time
	Entry    Entry // what the register said last
	Departed bool  // after Resign, nothing is left to do: the machine does nothing more
}

// Status describes the machine as it is now.
func (m *Machine) Status() Status {
	return Status{Acting: m.acting.on, Until: m.acting.until, Entry: m.known, Departed: m.departed}
}

// Step feeds one input at time now, which must not run backwards, and puts what follows
// into out, which it first clears. An error says that the register gave an answer that
// it must not give. Nonsense that others say changes nothing.
func (m *Machine) Step(now protocol.Time, in *Input, out *Output) error {
	out.reset()
	if !m.began {
		m.began, m.start, m.again, m.lastGet = true, now, now, now
	}
	m.now = max(now, m.now)
	if m.departed {
		return nil
	}
	if m.acting.on && m.now >= m.acting.until { // before anything else: nothing brings back a lease that ran out
		m.dismiss(out)
	}
	err := m.take(in, out)
	m.giveWay(out)
	m.depart()
	m.ask(out)
	return err
}

func (m *Machine) take(in *Input, out *Output) (err error) {
	if a := in.Answer; a != nil {
		err = m.answer(a, out)
		if err != nil || a.Outcome == Unknown || a.Outcome == Failed {
			m.again = m.now + m.lease()/16
		}
	}
	if in.Said != nil {
		m.listen(in.Said, out)
	}
	if n := in.Died; !n.IsZero() && n != m.cfg.Self {
		m.dead, m.deadAt = n, m.now
	}
	if n := in.Successor; m.acting.on && !n.IsZero() && n != m.cfg.Self {
		m.successor = n
		m.stop()
	}
	if in.Resign && !m.leaving {
		m.leaving, m.leaveBy, m.successor = true, m.now+m.lease(), protocol.Node{}
		m.dismiss(out)
	}
	return err
}

// listen takes what the lock machine of this participant says:
//
//   - Echo: something that it sent at that instant came back to it over the broker. Every
//     candidate needs one several times in each lease: a participant that does not hear
//     itself writes nothing, so a root that reaches the register but not the members
//     gives way.
//   - Claim, Renewal and Rank: what the root answers to its heartbeats, or somebody says
//     of a root. A candidate that has heard of nothing new for three eighths of the lease
//     reads the record. What is heard is never an authority: it saves reads.
//   - Summoned: the record names this participant.
//   - Remembered, Fence and Proposed, at the root.
func (m *Machine) listen(said *protocol.Output, out *Output) {
	if e := said.Echo; e > m.echo && e <= m.now {
		if !m.hears() {
			m.hearing = e
		}
		m.echo = e
	}
	m.claimed(&said.Claim)
	m.hear(said)
	m.look = m.look || said.Summoned
	if !m.acting.on {
		return
	}
	if f, c := said.WantCeiling, m.known.Record.Ceiling; f > c && f-c <= maxRaise && f <= protocol.MaxCeiling-block {
		m.fence = max(m.fence, f)
	}
	if said.Proposed != nil {
		m.propose(said.Proposed)
	}
	m.remember(said.Remembered, out)
}

// propose has the record get other settings, with those that were proposed before.
func (m *Machine) propose(p *protocol.Proposal) {
	s := m.known.Record.Settings
	if m.wanted != nil && m.wanted.Version > s.Version {
		s = *m.wanted
	}
	if s.Apply(p) {
		m.wanted = &s
	}
}

// hear takes what the root says of its newest renewal, and of our rank.
func (m *Machine) hear(said *protocol.Output) {
	r := said.Renewal
	if r.Counter == 0 || !m.read || said.Claim.Register != m.known.Version.Register() {
		return
	}
	v := Version{Domain: m.known.Version.Domain, Counter: r.Counter, Nonce: r.Nonce}
	m.look = m.look || said.Claim.Epoch.Number > m.known.Record.Term
	if v.after(m.known.Version) && (!m.heard.on || v.after(m.heard.version)) {
		m.heard = heard{true, v, m.now}
	}
	m.cfg.Rank = max(said.Rank, 0)
}

// dismiss ends the time as the root. Nothing but the next term begins another.
func (m *Machine) dismiss(out *Output) {
	if m.acting.on {
		m.stop()
		out.tell(protocol.Input{Kind: protocol.Dismissed})
	}
}

// stop is dismiss where the lock machine has stopped already.
func (m *Machine) stop() { m.acting, m.wanted, m.fence = acting{}, nil, 0 }

// depart ends the machine once nothing of it is left in the register, or the register
// does not answer.
func (m *Machine) depart() {
	if m.leaving && (m.now >= m.leaveBy || !m.pending.on && !m.mine()) {
		m.departed = true
		m.asked, m.pending = asked{}, pending{}
	}
}

// hears reports whether this participant hears itself over the broker.
func (m *Machine) hears() bool { return m.echo != 0 && m.now-m.echo < m.lease() }

// mine reports whether the record names this participant.
func (m *Machine) mine() bool { return m.exists() && m.known.Record.Root == m.cfg.Self }

// exists reports whether the topic is known to have a record.
func (m *Machine) exists() bool { return m.known.Version.Counter > 0 }

func (m *Machine) lease() protocol.Duration {
	if m.exists() {
		return m.known.Record.Lease
	}
	return m.cfg.Lease
}
