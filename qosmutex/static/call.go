package static

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// acquire takes a request of the application. A participant has one request for a
// resource in the algorithm at a time; others wait here, the most important first.
func (m *Machine) acquire(in *protocol.Input) error {
	if in.Ref == 0 || in.Ref <= m.lastRef && m.callOf(in.Ref) != nil {
		return fmt.Errorf("%w: %d", ErrRef, in.Ref)
	}
	m.lastRef = max(m.lastRef, in.Ref)
	if reason := m.refusal(in); reason != protocol.ReasonNone {
		m.deny(in.Ref, in.Resource, reason)
		return nil
	}
	e := m.at(in.Resource)
	c := &call{ref: in.Ref, client: in.Client, fixed: in.Fixed}
	c.Priority, c.Hold, c.Deadline = m.priority, in.Hold, protocol.Never
	if in.Fixed {
		c.Priority = in.Priority
	}
	if in.Within > 0 {
		c.Deadline = m.now + min(in.Within, protocol.Never-max(m.now, 0)) // as good as none where it overflows
	}
	if in.Try && !e.free() {
		m.deny(in.Ref, in.Resource, protocol.ReasonBusy)
		return nil
	}
	i := len(e.waiting)
	for i > 0 && e.waiting[i-1].Priority > c.Priority {
		i--
	}
	e.waiting = slices.Insert(e.waiting, i, c)
	m.waiting++
	m.settle(e)
	return nil
}

func (m *Machine) refusal(in *protocol.Input) protocol.Reason {
	switch {
	case in.Resource == protocol.Any:
		return protocol.ReasonUnsupported
	case !m.known(in.Resource):
		return protocol.ReasonUndeclared
	case m.waiting >= m.cfg.MaxWaiting || m.full(in.Resource):
		return protocol.ReasonFull
	}
	return protocol.ReasonNone
}

// free reports whether a request would be inside at once.
func (e *Env) free() bool {
	t, ok := e.core.(Taker)
	return ok && e.own == nil && len(e.waiting) == 0 && t.Free()
}

// settle brings the core and what the application wants together, once the core
// has returned.
func (m *Machine) settle(e *Env) {
	for {
		switch {
		case e.own == nil && len(e.waiting) > 0:
			m.ask(e)
		case e.own != nil && e.own.withdrawn && e.own.inside:
			e.own = nil
			e.core.Leave()
		case e.own != nil && e.own.withdrawn && len(e.waiting) > 0:
			m.replace(e)
		default:
			return
		}
	}
}

// ask hands the next request to the core.
func (m *Machine) ask(e *Env) {
	e.own = e.shift()
	m.clock++
	e.own.ID = protocol.RequestID{Node: m.cfg.Self, Clock: m.clock}
	e.core.Ask(&e.own.Request)
}

// replace puts the next request in the place of one that was withdrawn and that
// the core still waits for.
func (m *Machine) replace(e *Env) {
	old := e.own
	e.own = e.shift()
	if ch, ok := e.core.(Changer); ok {
		m.clock++
		e.own.ID = protocol.RequestID{Node: m.cfg.Self, Clock: m.clock}
		ch.Change(&e.own.Request)
		return
	}
	e.own.ID = old.ID
}

func (e *Env) shift() *call {
	c := e.waiting[0]
	e.waiting = slices.Delete(e.waiting, 0, 1)
	e.m.waiting--
	return c
}

func (m *Machine) withdraw(ref uint64) error {
	e := m.callOf(ref)
	switch {
	case e == nil:
		return fmt.Errorf("%w: %d is not waiting", ErrRef, ref)
	case e.own == nil || e.own.ref != ref:
		e.waiting = slices.DeleteFunc(e.waiting, func(c *call) bool { return c.ref == ref })
		m.waiting--
	case e.own.inside:
		return fmt.Errorf("%w: %d is inside", ErrRef, ref)
	default:
		if c, ok := e.core.(Canceller); ok {
			e.own = nil
			c.Cancel()
		} else {
			e.own.withdrawn = true
		}
		m.settle(e)
	}
	return nil
}

func (m *Machine) leave(ref uint64) error {
	e := m.callOf(ref)
	if e == nil || e.own == nil || e.own.ref != ref || !e.own.inside {
		return fmt.Errorf("%w: %d is not inside", ErrRef, ref)
	}
	e.own = nil
	e.core.Leave()
	m.settle(e)
	return nil
}

// prioritize changes the participant's priority, and with it that of its waiting
// requests that follow it.
func (m *Machine) prioritize(priority int64) {
	m.priority = priority
	for _, e := range m.envs {
		for _, c := range e.waiting {
			if !c.fixed {
				c.Priority = priority
			}
		}
		slices.SortStableFunc(e.waiting, func(a, b *call) int {
			switch {
			case a.Priority < b.Priority:
				return -1
			case a.Priority > b.Priority:
				return 1
			}
			return 0
		})
		c := e.own
		if c == nil || c.inside || c.fixed || c.withdrawn || c.Priority == priority {
			continue
		}
		if ch, ok := e.core.(Changer); ok {
			c.Priority = priority
			ch.Change(&c.Request)
			m.settle(e)
		}
	}
}

// callOf finds where the application's request ref is.
func (m *Machine) callOf(ref uint64) *Env {
	for _, e := range m.envs {
		if e.own != nil && e.own.ref == ref && !e.own.withdrawn {
			return e
		}
		if slices.ContainsFunc(e.waiting, func(c *call) bool { return c.ref == ref }) {
			return e
		}
	}
	return nil
}

func (m *Machine) deny(ref uint64, resource string, reason protocol.Reason) {
	m.out.Denials = append(m.out.Denials, protocol.Denial{Ref: ref, Resource: resource, Reason: reason})
}
