package qosmutex

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// central is a second, much simpler machine under the same contract: one server
// with a queue, as in the lectures. It survives no faults. The runtime must not
// know which of the two it drives.
var central = protocol.Algorithm{Name: "central", Source: "lecture", New: func(cfg protocol.Config) (protocol.Machine, error) {
	return &centralMachine{cfg: cfg, priority: cfg.Priority, waiting: map[string][]centralRequest{}, busy: map[string]protocol.RequestID{}, own: map[uint64]*centralRequest{}, fence: cfg.FenceFloor}, nil
}}

type centralRequest struct {
	id       protocol.RequestID
	resource string
	priority int64
	fixed    bool
	inside   bool
}

type centralMachine struct {
	cfg      protocol.Config
	role     protocol.Role
	server   protocol.Node
	settings protocol.Settings
	priority int64
	fence    uint64
	waiting  map[string][]centralRequest
	busy     map[string]protocol.RequestID
	own      map[uint64]*centralRequest
	again    protocol.Time
	now      protocol.Time
	out      *protocol.Output
}

func (m *centralMachine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	m.now, m.out = now, out
	err := m.handle(in)
	if m.role == protocol.Joining {
		if now >= m.again {
			m.again = now + m.cfg.Timing.JoinWait
			out.Messages = append(out.Messages, protocol.Message{Kind: protocol.KindJoin, From: m.cfg.Self})
		}
		out.WakeAt = m.again
	}
	return err
}

func (m *centralMachine) handle(in *protocol.Input) error {
	switch in.Kind {
	case protocol.Tick:
		if m.cfg.Root && m.role == protocol.Joining {
			m.role, m.server, m.settings = protocol.Root, m.cfg.Self, m.cfg.Settings
		}
	case protocol.Acquire:
		r := &centralRequest{id: m.id(in.Ref), resource: in.Resource, priority: in.Priority, fixed: in.Fixed}
		m.own[in.Ref] = r
		var flags protocol.Flags
		if in.Try {
			flags = protocol.FlagTry
		}
		m.toServer(protocol.Message{Kind: protocol.KindRequest, ID: r.id, Resource: r.resource, Priority: r.priority, Flags: flags})
	case protocol.Withdraw, protocol.Leave:
		r := m.own[in.Ref]
		if r == nil {
			return fmt.Errorf("central: no request %d", in.Ref)
		}
		kind := protocol.KindWithdraw
		if in.Kind == protocol.Leave {
			kind = protocol.KindRelease
			delete(m.own, in.Ref)
		}
		m.toServer(protocol.Message{Kind: kind, ID: r.id, Resource: r.resource})
	case protocol.SetModels:
		m.toServer(protocol.Message{Kind: protocol.KindPropose, Settings: protocol.Settings{Models: in.Models}})
	case protocol.Depart:
		if m.role == protocol.Member { // the server confirms that it has our last messages
			m.send(m.server, protocol.Message{Kind: protocol.KindGoodbye})
		} else {
			m.role = protocol.Departed
		}
	case protocol.Receive:
		return m.receive(in.Message)
	}
	return nil
}

func (m *centralMachine) id(ref uint64) protocol.RequestID {
	return protocol.RequestID{Node: m.cfg.Self, Clock: ref}
}

func (m *centralMachine) toServer(msg protocol.Message) {
	if m.role == protocol.Root {
		msg.From = m.cfg.Self
		_ = m.receive(&msg)
		return
	}
	m.send(m.server, msg)
}

func (m *centralMachine) send(to protocol.Node, msg protocol.Message) {
	msg.From, msg.To = m.cfg.Self, to
	if to == m.cfg.Self {
		_ = m.receive(&msg)
		return
	}
	m.out.Messages = append(m.out.Messages, msg)
}

func (m *centralMachine) receive(msg *protocol.Message) error {
	if m.role == protocol.Root {
		switch msg.Kind {
		case protocol.KindJoin:
			m.send(msg.From, protocol.Message{Kind: protocol.KindAccept, Settings: m.settings, TTL: m.cfg.Timing.TTL})
			return nil
		case protocol.KindRequest:
			return m.request(msg)
		case protocol.KindWithdraw:
			m.waiting[msg.Resource] = slices.DeleteFunc(m.waiting[msg.Resource], func(r centralRequest) bool { return r.id == msg.ID })
			return nil // a grant that crosses it is left by the runtime
		case protocol.KindRelease:
			if m.busy[msg.Resource] != msg.ID {
				return fmt.Errorf("central: %v does not hold %q", msg.ID, msg.Resource)
			}
			delete(m.busy, msg.Resource)
			m.serve(msg.Resource)
			return nil
		case protocol.KindGoodbye:
			m.send(msg.From, protocol.Message{Kind: protocol.KindDetach})
			return nil
		case protocol.KindPropose:
			m.settings.Models = msg.Settings.Models
			m.settings.Version++
			return nil
		}
	}
	switch msg.Kind {
	case protocol.KindAccept:
		m.role, m.server, m.settings = protocol.Member, msg.From, msg.Settings
		m.settings.Resources = slices.Clone(msg.Settings.Resources)
	case protocol.KindDetach:
		m.role = protocol.Departed
	case protocol.KindReply:
		if r := m.own[msg.ID.Clock]; r != nil {
			r.inside = true
			m.out.Grants = append(m.out.Grants, protocol.Granted{Ref: msg.ID.Clock, ID: msg.ID, Resource: msg.Resource, Fence: msg.Fences.Next, Priority: msg.Priority})
		}
	case protocol.KindDeny:
		delete(m.own, msg.ID.Clock)
		m.out.Denials = append(m.out.Denials, protocol.Denial{Ref: msg.ID.Clock, Resource: msg.Resource, Reason: msg.Reason})
	}
	return nil
}

func (m *centralMachine) request(msg *protocol.Message) error {
	_, taken := m.busy[msg.Resource]
	if taken && msg.Flags&protocol.FlagTry != 0 {
		m.send(msg.ID.Node, protocol.Message{Kind: protocol.KindDeny, ID: msg.ID, Resource: msg.Resource, Reason: protocol.ReasonBusy})
		return nil
	}
	q := append(m.waiting[msg.Resource], centralRequest{id: msg.ID, resource: msg.Resource, priority: msg.Priority})
	slices.SortStableFunc(q, func(a, b centralRequest) int { return cmp.Compare(a.priority, b.priority) })
	m.waiting[msg.Resource] = q
	m.serve(msg.Resource)
	return nil
}

func (m *centralMachine) serve(resource string) {
	q := m.waiting[resource]
	if _, taken := m.busy[resource]; taken || len(q) == 0 {
		return
	}
	r := q[0]
	m.waiting[resource] = q[1:]
	m.busy[resource] = r.id
	m.fence++
	m.send(r.id.Node, protocol.Message{Kind: protocol.KindReply, ID: r.id, Resource: resource, Priority: r.priority, Fences: protocol.Fences{Next: m.fence, End: m.fence + 1}})
}

func (m *centralMachine) Status() protocol.Status {
	s := protocol.Status{Role: m.role, Root: m.server, Epoch: protocol.Epoch{Number: m.cfg.EpochFloor + 1}, Priority: m.priority, Settings: m.settings, TTL: m.cfg.Timing.TTL}
	if m.role == protocol.Root || m.role == protocol.Member {
		s.Session, s.ValidUntil = 1, protocol.Never
	}
	names := map[string]bool{}
	for _, r := range m.settings.Resources {
		names[r] = true
	}
	for r := range m.busy {
		names[r] = true
	}
	for name := range names {
		id, busy := m.busy[name]
		r := protocol.ResourceStatus{Resource: name, Free: !busy, Target: id, Fences: protocol.Fences{Next: m.fence, End: m.fence + 1}, Fence: m.fence, Waiting: len(m.waiting[name])}
		for _, w := range m.waiting[name] {
			r.Queue = append(r.Queue, protocol.Waiter{ID: w.id, Priority: w.priority})
		}
		for _, o := range m.own {
			r.Inside = r.Inside || o.inside && o.resource == name
		}
		s.Resources = append(s.Resources, r)
	}
	slices.SortFunc(s.Resources, func(a, b protocol.ResourceStatus) int { return cmp.Compare(a.Resource, b.Resource) })
	return s
}
