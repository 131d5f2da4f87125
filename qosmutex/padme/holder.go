package padme

import "padme/qosmutex/protocol"

// holder is who answered a Sync that it is inside. The root learns so of an entry
// that goes on when it takes a token over, or looks for one; of others it hears
// nothing before their Release.
type holder struct {
	entry    protocol.Entry
	priority int64
}

// nameHolder says in an answer which entry it is that goes on here.
func (m *Machine) nameHolder(answer *protocol.Message, r *resource) {
	if h := m.holderOf(r); h != nil {
		answer.Entries, answer.Priority = []protocol.Entry{h.entry}, h.priority
	}
}

// answered takes what an answer to a Sync says of who is inside. A fence that was never
// handed out is not believed.
func (t *token) answered(msg *protocol.Message) {
	switch {
	case msg.Verdict != protocol.VerdictHolding:
		if t.holder != nil && t.holder.entry.ID.Node == msg.From {
			t.holder = nil
		}
	case len(msg.Entries) == 1 && msg.Entries[0].ID.Node == msg.From && msg.Entries[0].Fence < t.next:
		t.holder = &holder{msg.Entries[0], msg.Priority}
	}
}

// named notes the holder that a heartbeat tells of.
func (t *token) named(ts *protocol.TokenState) {
	if ts.Target == t.target && t.fences.Next <= ts.Fence && ts.Fence < t.fences.End {
		t.holder = &holder{protocol.Entry{ID: ts.Target, Fence: ts.Fence}, t.prio}
	}
}

// holderOf is who is known to be inside r: we, or, at the root, who said so in a
// session that goes on. nil: we know of nobody.
func (m *Machine) holderOf(r *resource) *holder {
	t := &r.tok
	switch {
	case t.phase == using:
		return &holder{protocol.Entry{ID: t.inside.id, Fence: t.fence}, t.inside.priority}
	case t.phase == below && t.holder != nil && m.sessionOf(t.holder.entry.ID.Node) != nil:
		return t.holder
	}
	return nil
}

// grantFences are those of the entries on the present grant of r that we have not
// been told of. A grant of a former root may have had any that is handed out.
func (m *Machine) grantFences(r *resource) protocol.Fences {
	t := &r.tok
	switch h := m.holderOf(r); {
	case m.role != protocol.Root || t.phase != below:
		return protocol.Fences{}
	case t.grant.Epoch == m.epoch:
		return t.fences
	case h != nil:
		return protocol.Fences{Next: h.entry.Fence + 1, End: t.next}
	}
	return protocol.Fences{Next: t.next, End: t.next} // none that we would know of
}

// leftAsRoot reports whether we were the root when we left: there was no successor.
func (m *Machine) leftAsRoot() bool { return m.role == protocol.Departed && m.root == m.self }

// deserted reports whether we left as the root and nobody else was there.
func (m *Machine) deserted() bool {
	return m.leftAsRoot() && len(m.members) == 0 && m.authority.inherit == 0
}
