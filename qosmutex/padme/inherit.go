package padme

import (
	"math"

	"padme/qosmutex/protocol"
)

// inherit begins the time in which an elected root does not know where the tokens
// are. Its predecessor answered heartbeats until its lease ended, so the sessions
// that it gave end within a grace from now, and whoever holds under one of them
// tells us before with its next heartbeat: such a hold goes on at once. Until
// then every other token may be with somebody.
func (m *Machine) inherit() {
	m.reign().inherit = m.now + m.grace
	m.forgetGrants()
	for _, r := range m.resources {
		if r.tok.phase != using {
			m.mislay(r)
		}
	}
}

// mislay marks a token as being with nobody knows whom.
func (m *Machine) mislay(r *resource) {
	t := &r.tok
	t.phase, t.down, t.passed, t.target, t.prio, t.back, t.due, t.sole = below, nil, nil, protocol.RequestID{}, 0, protocol.Never, 0, false
	t.recovery, t.holder = &recovery{mislaid: true}, nil
}

// inheriting reports whether tokens may still be mislaid.
func (m *Machine) inheriting() bool { return m.reign() != nil && m.reign().inherit != 0 }

// inherited ends that time: the tokens that nobody named are made anew, and all who
// can have one that we look for are known.
func (m *Machine) inherited() {
	m.reign().inherit = 0
	for _, r := range m.resources {
		switch rec := r.tok.recovery; {
		case rec == nil:
		case rec.mislaid:
			m.regenerate(r)
		case rec.all || !m.mayAnswer(rec.pending[0]):
			m.askAll(r)
		}
	}
}

// adoptSession takes over a session that our predecessor gave, with its holds. The
// heartbeat names all of them, or none would be safe.
func (m *Machine) adoptSession(msg *protocol.Message) *memberSession {
	s := &memberSession{node: msg.From, number: msg.Session, heard: m.now - m.timing.TTL, beats: math.MaxUint8}
	m.addSession(s)
	for i := range msg.Tokens {
		m.adoptHold(msg.From, &msg.Tokens[i])
	}
	return s
}

func (m *Machine) adoptHold(holder protocol.Node, ts *protocol.TokenState) {
	if !m.known(ts.Resource) || !m.old(ts.Grant) {
		return
	}
	r := m.resource(ts.Resource)
	t := &r.tok
	if t.recovery == nil || !t.recovery.mislaid {
		return
	}
	m.ballot.tally.adopted++
	t.recovery = nil
	t.grant, t.target, t.passed = ts.Grant, ts.Target, &holder
	t.next = max(t.next, ts.Fence+1)
	if e := m.requests.get(ts.Target); e != nil && e.state == waiting {
		if !e.try {
			e.q.remove(m.settings.Models.Priority, e)
		}
		e.state = served
	}
	m.recover(r) // its Release may have come before, and was not believed
}

// holds lists what we hold: all of it for a root that does not know of it, else what
// is to be confirmed.
func (m *Machine) holds(all bool) []protocol.TokenState {
	var list []protocol.TokenState
	for _, r := range m.resources {
		if t := &r.tok; t.unconfirmed() || all && t.phase == using {
			list = append(list, protocol.TokenState{
				Resource: r.q.resource, Out: true, Grant: t.grant, Target: t.inside.id, Fence: t.fence,
			})
		}
	}
	return list
}
