package padme

import "padme/qosmutex/protocol"

// holder is who answered a Sync that it is inside. The root learns so of an entry
// that goes on when it takes a token over, or looks for one; of others it hears
// nothing before their Release.
type holder struct {
	entry    protocol.Entry
	priority int64
	client   string
}

// answered takes what an answer to a Sync says of who is inside.
func (t *token) answered(msg *protocol.Message) {
	switch {
	case msg.Verdict == protocol.VerdictHolding && len(msg.Entries) == 1:
		t.heldBy(msg.From, holder{msg.Entries[0], msg.Priority, msg.Client})
	case msg.Verdict != protocol.VerdictHolding && t.holder != nil && t.holder.entry.ID.Node == msg.From:
		t.holder = nil
	}
}

// heldBy notes who says that it is inside. A fence that was never handed out is not
// believed.
func (t *token) heldBy(from protocol.Node, h holder) {
	if h.entry.ID.Node == from && h.entry.Fence < t.next {
		t.holder = copied(&h)
	}
}

// clientOf is on whose behalf a request was made, as far as it is known here.
func (m *Machine) clientOf(id protocol.RequestID) string {
	if e := m.requests.get(id); e != nil {
		return e.client
	}
	return ""
}

// holderOf is who is known to be inside r: we, or, at the root, who said so in a
// session that goes on. nil: we know of nobody.
func (m *Machine) holderOf(r *resource) *holder {
	t := &r.tok
	switch {
	case t.phase == using:
		return &holder{protocol.Entry{ID: t.inside.id, Fence: t.fence}, t.inside.priority, t.inside.client}
	case t.phase == below && t.holder != nil && m.sessionOf(t.holder.entry.ID.Node) != nil:
		return t.holder
	}
	return nil
}

// grantFences are those of the entries on the present grant that we, as the root, have
// not been told of, but for that of h, which holds. A grant of a former root may have had
// any that is handed out.
func (m *Machine) grantFences(t *token, h *holder) protocol.Fences {
	switch {
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
