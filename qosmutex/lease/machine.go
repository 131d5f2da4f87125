package lease

import (
	"fmt"

	"padme/qosmutex/protocol"
)

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
	asks    uint64
	nonces  uint64

	// This participant.
	acting      acting
	spent       uint64 // the newest term in which it was the root
	echo        protocol.Time
	echoed      bool
	hearing     protocol.Time // since when it has heard itself without a gap
	declaration *Declaration
	fence       uint64        // the root needs fences up to it; 0: those it has
	successor   protocol.Node // who is to be the root, since this one stopped for it
	leaving     bool
	leaveBy     protocol.Time
	departed    bool
	dead        protocol.Node // has ended
	deadAt      protocol.Time
}

// heard is a version that a beacon named, and the register was not asked about since.
type heard struct {
	on      bool
	version Version
	at      protocol.Time
}

// other is a claim of a root that may be of another register.
type other struct {
	claim protocol.Claim
	until protocol.Time // it counts below; 0: there was none
	told  bool          // in an Output
}

// asked is the request that is not answered yet.
type asked struct {
	kind RequestKind
	ref  uint64
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
}

// acting is the time in which this participant is the root.
type acting struct {
	on      bool
	until   protocol.Time
	renewed protocol.Time
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
	Known    bool // the register has answered
	Entry    Entry
	Hears    bool // it hears itself over the broker
	Departed bool
	// Elsewhere: a root of another register keeps this one from being the root.
	Elsewhere bool
}

// Status describes the machine as it is now.
func (m *Machine) Status() Status {
	return Status{
		Acting: m.acting.on, Until: m.acting.until, Known: m.read, Entry: m.known,
		Hears: m.hears(), Departed: m.departed, Elsewhere: m.Elsewhere(),
	}
}

// Step feeds one input at time now, which must not run backwards, and puts what follows
// into out, which it first clears. An error says that the input was wrong; the step is
// then that of a mere Tick.
func (m *Machine) Step(now protocol.Time, in *Input, out *Output) error {
	out.reset()
	if m.began && now < m.now {
		return fmt.Errorf("%w: time runs backwards", ErrInvalid)
	}
	if !m.began {
		m.began, m.start, m.again, m.lastGet = true, now, now, now
	}
	m.now = now
	if m.departed {
		return nil
	}
	if m.acting.on && now >= m.acting.until { // before anything else: nothing brings back a lease that ran out
		m.dismiss(out)
	}
	err := m.take(in, out)
	m.giveWay(out)
	m.depart(out)
	m.ask(in.Kind == Renew, out)
	out.WakeAt = m.wake()
	return err
}

func (m *Machine) take(in *Input, out *Output) error {
	switch in.Kind {
	case Tick, Renew:
		return nil
	case ReadDone, WriteDone:
		return m.answer(in, out)
	case Heard:
		return m.hear(in)
	case Echo:
		if in.Sent > m.now || m.echoed && in.Sent < m.echo {
			return fmt.Errorf("%w: an echo of %d at %d is not new", ErrInvalid, in.Sent, m.now)
		}
		if !m.hears() {
			m.hearing = in.Sent
		}
		m.echo, m.echoed = in.Sent, true
	case SetRank:
		if in.Rank < 0 {
			return fmt.Errorf("%w: rank %d is negative", ErrInvalid, in.Rank)
		}
		m.cfg.Rank = in.Rank
	case Died:
		if in.Node.IsZero() || in.Node == m.cfg.Self {
			return fmt.Errorf("%w: Died names no other participant", ErrInvalid)
		}
		m.dead, m.deadAt = in.Node, m.now
	case Claimed:
		return m.claimed(&in.Claim)
	case Remembered:
		return m.remember(in.Term, out)
	case Resign:
		if !m.leaving {
			m.leaving, m.leaveBy = true, m.now+m.lease()
			m.dismiss(out)
		}
	case Propose, RaiseCeiling, NameSuccessor:
		if !m.acting.on {
			return ErrNotRoot
		}
		return m.command(in, out)
	default:
		return fmt.Errorf("%w: input of unknown kind %d", ErrInvalid, in.Kind)
	}
	return nil
}

// command takes what only the root is asked.
func (m *Machine) command(in *Input, out *Output) error {
	switch in.Kind {
	case Propose:
		return m.propose(in.Declaration, out)
	case RaiseCeiling:
		if c := m.known.Record.Ceiling; in.Fence > c && (in.Fence-c > maxRaise || in.Fence > protocol.MaxCeiling-block) {
			return fmt.Errorf("%w: fence %d is too far above the ceiling of %d", ErrInvalid, in.Fence, c)
		}
		m.fence = max(m.fence, in.Fence)
	case NameSuccessor:
		if in.Node.IsZero() || in.Node == m.cfg.Self {
			return fmt.Errorf("%w: the successor is not another participant", ErrInvalid)
		}
		m.successor = in.Node
		m.dismiss(out)
	}
	return nil
}

// dismiss ends the time as the root. Nothing but the next term begins another.
func (m *Machine) dismiss(out *Output) {
	if m.acting.on {
		m.acting, m.declaration, m.fence = acting{}, nil, 0
		out.Dismissed = true
	}
}

// depart ends the machine once nothing of it is left in the register, or the register
// does not answer.
func (m *Machine) depart(out *Output) {
	if m.leaving && (m.now >= m.leaveBy || !m.pending.on && !m.mine()) {
		m.departed, out.Departed = true, true
		m.asked, m.pending = asked{}, pending{}
	}
}

// hear takes a beacon.
func (m *Machine) hear(in *Input) error {
	v := in.Version
	if m.read && v.Domain != m.known.Version.Domain {
		return fmt.Errorf("%w: a beacon of another domain", ErrInvalid)
	}
	m.look = m.look || in.Term > m.known.Record.Term
	if m.read && v.after(m.known.Version) && (!m.heard.on || v.after(m.heard.version)) {
		m.heard = heard{true, v, m.now}
	}
	return nil
}

// hears reports whether this participant hears itself over the broker.
func (m *Machine) hears() bool { return m.echoed && m.now-m.echo < m.lease() }

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
