package sim

import (
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// central is the central server of the lectures as a machine, without repair: the
// creator keeps a queue per resource; a client sends it Request and Release and
// gets Reply or Deny. Clients know the server as their Parent. A fault can be
// switched on to see it noticed.
type central struct {
	self, server protocol.Node
	priority     int64
	clock        uint64
	began        bool
	topic        map[string]*served // at the server
	open         []protocol.Granted // own requests; Fence is 0 while they wait
	fault        string
	entries      [1]protocol.Entry
}

type served struct {
	busy    bool
	fence   uint64
	waiting []waiter
}

type waiter struct {
	id       protocol.RequestID
	priority int64
}

var errCentral = errors.New("central: input that fits nothing")

const serverRun = 1 // the server's incarnation: it never restarts

func centralServer(fault string) protocol.Algorithm {
	return protocol.Algorithm{Name: "central", Source: "lecture", New: func(c protocol.Config) (protocol.Machine, error) {
		m := &central{self: c.Self, priority: c.Priority, server: protocol.Node{ID: c.Parent, Incarnation: serverRun}, fault: fault}
		if c.Root {
			m.server, m.topic = c.Self, map[string]*served{}
		}
		return m, nil
	}}
}

func (m *central) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	switch in.Kind {
	case protocol.Tick:
		if m.began {
			return fmt.Errorf("%w: tick that nobody asked for", errCentral)
		}
		m.began = true
	case protocol.Acquire:
		m.clock++
		id := protocol.RequestID{Node: m.self, Clock: m.clock}
		m.open = append(m.open, protocol.Granted{Ref: in.Ref, ID: id, Resource: in.Resource, Priority: in.Priority})
		m.tell(out, protocol.Message{Kind: protocol.KindRequest, ID: id, Resource: in.Resource, Priority: in.Priority})
	case protocol.Leave, protocol.Withdraw:
		i := slices.IndexFunc(m.open, func(g protocol.Granted) bool { return g.Ref == in.Ref })
		if i < 0 {
			return fmt.Errorf("%w: ref %d", errCentral, in.Ref)
		}
		g := m.open[i]
		m.open = slices.Delete(m.open, i, i+1)
		msg := protocol.Message{Kind: protocol.KindRelease, ID: g.ID, Resource: g.Resource, Fences: protocol.Fences{Next: g.Fence, End: g.Fence}}
		m.entries[0] = protocol.Entry{ID: g.ID, Fence: g.Fence}
		msg.Entries = m.entries[:]
		if in.Kind == protocol.Withdraw {
			msg = protocol.Message{Kind: protocol.KindWithdraw, ID: g.ID, Resource: g.Resource}
		}
		if m.fault == "lapses" && in.Kind == protocol.Leave {
			out.Losses = append(out.Losses, protocol.Loss{Ref: g.Ref, ID: g.ID, Resource: g.Resource, Fence: g.Fence})
			m.tell(out, msg)
			return fmt.Errorf("%w: ref %d has lapsed", errCentral, in.Ref)
		}
		m.tell(out, msg)
	case protocol.Receive:
		return m.receive(in.Message, out)
	case protocol.Prioritize:
		m.priority = in.Priority
	}
	return nil
}

// tell sends to the server, or handles at once what the server tells itself.
func (m *central) tell(out *protocol.Output, msg protocol.Message) {
	msg.From, msg.To, msg.Clock = m.self, m.server, m.clock
	if m.self == m.server {
		m.serve(&msg, out)
		return
	}
	out.Messages = append(out.Messages, msg)
}

func (m *central) receive(msg *protocol.Message, out *protocol.Output) error {
	m.clock = max(m.clock, msg.Clock)
	if msg.To != m.self {
		return fmt.Errorf("%w: message to another incarnation", errCentral)
	}
	if m.topic != nil {
		m.serve(msg, out)
		return nil
	}
	return m.grant(msg, out)
}

func (m *central) grant(msg *protocol.Message, out *protocol.Output) error {
	i := slices.IndexFunc(m.open, func(g protocol.Granted) bool { return g.ID == msg.ID && g.Fence == 0 })
	if i < 0 { // withdrawn meanwhile, or a duplicate
		return fmt.Errorf("%w: grant of %v", errCentral, msg.ID)
	}
	if msg.Kind == protocol.KindDeny {
		out.Denials = append(out.Denials, protocol.Denial{Ref: m.open[i].Ref, Resource: msg.Resource, Reason: msg.Reason})
		m.open = slices.Delete(m.open, i, i+1)
		return nil
	}
	m.open[i].Fence = msg.Fences.Next
	out.Grants = append(out.Grants, m.open[i])
	return nil
}

// serve is the server's part.
func (m *central) serve(msg *protocol.Message, out *protocol.Output) {
	t := m.topic[msg.Resource]
	if t == nil {
		t = &served{}
		m.topic[msg.Resource] = t
	}
	switch msg.Kind {
	case protocol.KindRequest:
		if msg.Resource == "forbidden" {
			m.answer(out, protocol.Message{Kind: protocol.KindDeny, ID: msg.ID, Resource: msg.Resource, Reason: protocol.ReasonUndeclared})
			return
		}
		t.waiting = append(t.waiting, waiter{msg.ID, msg.Priority})
	case protocol.KindWithdraw:
		before := len(t.waiting)
		t.waiting = slices.DeleteFunc(t.waiting, func(w waiter) bool { return w.id == msg.ID })
		if len(t.waiting) == before {
			t.busy = false // the grant and the withdrawal have crossed
		}
	case protocol.KindRelease:
		t.busy = false
	}
	for len(t.waiting) > 0 && (!t.busy || m.fault == "two inside") {
		next := t.waiting[0]
		t.waiting = t.waiting[:copy(t.waiting, t.waiting[1:])]
		t.busy = true
		t.fence++
		f := t.fence
		m.answer(out, protocol.Message{Kind: protocol.KindReply, ID: next.id, Resource: msg.Resource, Fences: protocol.Fences{Next: f, End: f + 1}})
	}
}

func (m *central) answer(out *protocol.Output, msg protocol.Message) {
	msg.From, msg.To, msg.Clock = m.self, msg.ID.Node, m.clock
	if msg.To == m.self {
		_ = m.grant(&msg, out)
		return
	}
	out.Messages = append(out.Messages, msg)
}

func (m *central) Status() protocol.Status {
	s := protocol.Status{Role: protocol.Member, Root: m.server, Parent: m.server, ValidUntil: protocol.Never}
	if m.self == m.server {
		s.Role = protocol.Root
	}
	if m.fault == "never joins" {
		s.Role = protocol.Joining
	}
	return s
}
