package candidate

import (
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// listen passes on what the PADME machine says that concerns the lease.
func (m *Machine) listen(now protocol.Time, out *protocol.Output) {
	if out.Echo != 0 {
		m.tell(now, &lease.Input{Kind: lease.Echo, Sent: out.Echo})
	}
	if out.Claim.Register != 0 {
		m.tell(now, &lease.Input{Kind: lease.Claimed, Claim: out.Claim})
	}
	if out.Remembered != 0 {
		m.tell(now, &lease.Input{Kind: lease.Remembered, Term: out.Remembered})
	}
	if r := out.Renewal; r.Counter != 0 && m.known.Version.Counter != 0 && out.Claim.Register == m.known.Version.Register() {
		v := lease.Version{Domain: m.known.Version.Domain, Counter: r.Counter, Nonce: r.Nonce}
		_, epoch := m.Term()
		m.tell(now, &lease.Input{Kind: lease.Heard, Version: v, Term: epoch.Number})
		if out.Rank != m.rank {
			m.rank = out.Rank
			m.tell(now, &lease.Input{Kind: lease.SetRank, Rank: out.Rank})
		}
	}
	if out.Summoned {
		m.tell(now, &lease.Input{Kind: lease.Heard, Version: m.known.Version, Term: m.known.Record.Term + 1})
	}
	if out.Fence != 0 {
		m.tell(now, &lease.Input{Kind: lease.RaiseCeiling, Fence: out.Fence})
	}
	if out.Proposed != nil {
		s := m.known.Record.Settings
		s.Models = *out.Proposed
		m.tell(now, &lease.Input{Kind: lease.Propose, Declaration: lease.Declaration{Settings: s, By: m.self().ID, Change: true}})
	}
	if !out.Successor.IsZero() && m.successor.IsZero() {
		m.say(protocol.Input{Kind: protocol.Yield, Node: out.Successor})
	}
	if role, _ := m.Term(); role == protocol.Departed && !m.leaving {
		m.leaving = true
		m.tell(now, &lease.Input{Kind: lease.Resign})
	}
}

// say queues an input for the PADME machine.
func (m *Machine) say(in protocol.Input) { m.told = append(m.told, in) }

// carriedOut goes on after the PADME machine took an input of ours.
func (m *Machine) carriedOut(now protocol.Time, in *protocol.Input, err error) {
	if in.Kind == protocol.Yield && err == nil && m.successor.IsZero() {
		m.successor = in.Node
		m.tell(now, &lease.Input{Kind: lease.NameSuccessor, Node: in.Node})
	}
}

// tell feeds the lease, and queues what follows for the PADME machine.
func (m *Machine) tell(now protocol.Time, in *lease.Input) {
	err := m.lease.Step(now, in, &m.out)
	if err != nil && (in.Kind == lease.ReadDone || in.Kind == lease.WriteDone) {
		m.news.Err = err
	}
	o := &m.out
	m.wakeAt = o.WakeAt
	if o.Dismissed && m.successor.IsZero() {
		m.say(protocol.Input{Kind: protocol.Dismissed})
	}
	if o.Request.Kind != lease.NoRequest {
		m.request = o.Request
	}
	if e := o.Changed; e != nil {
		m.changed(e)
	}
	if a := o.Appointed; a != nil {
		m.appointed(a)
	}
	if x := o.Extended; x != nil {
		m.known.Version = x.Version
		m.say(protocol.Input{Kind: protocol.Extended, Lease: &protocol.Lease{
			Term: m.known.Record.Term, Until: x.Until, Renewed: x.Renewed, Renewal: renewal(x.Version), Fences: protocol.Fences{End: x.Ceiling},
		}})
	}
	m.news.Absent = m.news.Absent || o.Absent
	if o.Elsewhere != nil {
		m.news.Elsewhere = o.Elsewhere
	}
	if o.Disagreement != nil {
		m.news.Disagreement = o.Disagreement
	}
}

// changed takes a record that says something new.
func (m *Machine) changed(e *lease.Entry) {
	m.known = *e
	switch successor := m.successor; {
	case successor.IsZero():
		if e.Record.Root == m.self() {
			m.say(protocol.Input{Kind: protocol.Configure, Lease: &protocol.Lease{Settings: e.Record.Settings}})
		}
	case e.Record.Root == successor:
		m.successor = protocol.Node{}
		m.say(protocol.Input{Kind: protocol.Succeeded, Lease: &protocol.Lease{Term: e.Record.Term}, Node: successor})
	case e.Record.Root != m.self():
		m.successor = protocol.Node{}
		m.say(protocol.Input{Kind: protocol.Dismissed})
	}
}

func (m *Machine) appointed(a *lease.Appointed) {
	m.known = a.Entry
	m.successor = protocol.Node{}
	m.say(protocol.Input{Kind: protocol.Appointed, Lease: &protocol.Lease{
		Term: a.Record.Term, Until: a.Until, Renewed: a.Renewed, Renewal: renewal(a.Version), Register: a.Version.Register(), Heard: a.Heard,
		Fences: protocol.Fences{Next: a.First, End: a.Record.Ceiling}, TTL: a.Record.TTL, Settings: a.Record.Settings,
		Members: m.members, Known: m.membersKnown,
	}})
	m.members, m.membersKnown = nil, false
}

func renewal(v lease.Version) protocol.Renewal {
	return protocol.Renewal{Counter: v.Counter, Nonce: v.Nonce}
}

func (m *Machine) self() protocol.Node { return m.Self() }
