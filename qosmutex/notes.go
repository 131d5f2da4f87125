package qosmutex

import (
	"context"
	"slices"
	"time"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// Holds with a note are kept beside the file of the register, as the members are, or in a file of
// their own where the register is kept elsewhere: noted before anybody is told of them, and
// forgotten before the machine leaves them. What is noted is thus a part of what the process was
// inside of when it ended. With it stands the term in which this participant is the root, or its
// session as a member: the next process goes on with the holds only if the record still names that
// term, or the root still keeps that session.

// MaxNote bounds what WithNote keeps, in bytes.
const MaxNote = 512

// heldNotes is what is noted of holds.
type heldNotes struct {
	term     uint64           // in which we are the root, as it is noted; 0: we are not
	next     uint64           // in which we may be soon, as it is noted
	session  uint64           // that we have as a member, as it is noted; 0: none
	placed   bool             // we have had a place in this process
	resuming map[uint64]*Hold // of the process before, by Ref, until it is known which of them go on
	resumed  []*Hold
}

// Resumed returns the holds of an earlier process that continue in this one (see WithNote),
// sorted by resource. The list is complete once Open has returned. If you pass Resume, you
// must handle every resumed hold and unlock those no longer in use.
func (t *Topic) Resumed() []*Hold {
	if t.made() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.record.notes.resumed)
}

// Note returns the note that was passed to WithNote.
func (h *Hold) Note() []byte {
	if h.made() != nil {
		return nil
	}
	return slices.Clone(h.note)
}

// keptIn has a topic note in p what outlives the process.
func keptIn(p placed) Option {
	return func(o *options) error {
		o.kept = p
		return nil
	}
}

// readNotes makes requests of what the process before held, and has the machine go on with it.
func (t *Topic) readNotes(cfg *protocol.Config) {
	k := &t.record
	k.key = recordKey(t.p.Root(), t.name)
	if k.placed = t.kept; k.placed == nil {
		k.placed, _ = t.register.(placed)
	}
	if k.placed == nil {
		return
	}
	held := k.placed.Held(k.key)
	n := &k.notes
	n.resuming = map[uint64]*Hold{}
	for i := range held {
		was := &held[i]
		t.lastRef++
		h := &Hold{
			of: t, parent: context.Background(), ref: t.lastRef, resource: was.Resource, client: was.Client, fence: was.Fence,
			priority: was.Priority, fixed: true, note: append([]byte{}, was.Note...), requested: time.Now(),
		}
		n.resuming[h.ref], t.calls[h.ref] = h, h
		if t.resumes { // else none goes on
			cfg.Held = append(cfg.Held, protocol.Held{Ref: h.ref, Resource: h.resource, Client: h.client, Fence: h.fence, Priority: h.priority})
		}
	}
	if s := k.placed.Session(k.key); t.resumes {
		cfg.Former = protocol.Former{Incarnation: s.Incarnation, Session: s.Number}
	}
}

// noteNext notes that a write makes this participant the root, before it is made: the process may end
// before it hears that it was. The caller holds mu.
func (t *Topic) noteNext(r *lease.Request) {
	k := &t.record
	if k.placed == nil || r.Kind != lease.WriteRecord || r.Write.Record.Root != t.self || r.Write.Record.Term == k.notes.next {
		return
	}
	k.notes.next = r.Write.Record.Term
	t.noted(k.placed.NoteNext(k.key, k.notes.next))
}

// noteStand notes in which term this participant is the root, or under which session it holds
// something, and, once it has a place, which holds of the process before do not go on. The caller
// holds mu.
func (t *Topic) noteStand() {
	k := &t.record
	n := &k.notes
	if k.placed == nil {
		return
	}
	term, session := uint64(0), n.session
	if t.out.Changed {
		o := t.machine.Overview()
		if session = o.Session; o.Role == protocol.Departed && t.p.Err() == nil { // it left in good order
			session = 0
		}
	}
	if k.candidate != nil {
		if role, epoch := k.candidate.Term(); role == protocol.Root {
			term, session = epoch.Number, 0
		}
	}
	if !n.placed && term == 0 && session == 0 {
		return // whether the process before goes on in this one is not known yet
	}
	first, over := !n.placed, t.resume()
	n.placed = true
	if known := term != 0 && k.candidate.MembersKnown(); len(over) > 0 || !known && (first || n.term != term) { // there may be others than were noted
		k.settled = false
		t.note(protocol.Node{}, true)
	}
	if first || n.term != term {
		n.term = term
		t.noted(k.placed.NoteTerm(k.key, term))
	}
	if n.session != session {
		n.session = session
		t.noted(k.placed.NoteSession(k.key, local.Session{Incarnation: t.self.Incarnation, Number: session}))
	}
	for _, h := range over { // last, so that a process that ends before names all that somebody may go by
		t.forgetHold(h)
	}
}

// resume takes the holds of the process before that go on, and returns those that do not: somebody may
// still go by them.
func (t *Topic) resume() (over []*Hold) {
	n := &t.record.notes
	for i := range t.out.Grants {
		if h := n.resuming[t.out.Grants[i].Ref]; h != nil {
			n.resumed = append(n.resumed, h)
			delete(n.resuming, h.ref)
		}
	}
	for _, h := range n.resuming {
		over = append(over, h)
		delete(t.calls, h.ref)
		t.fail(h, h.lostError())
		t.log.Warn("a hold of the process before this one does not go on: somebody else may have been let in, or the topic has no such resource any more",
			"resource", h.resource, "fence", h.fence)
	}
	n.resuming = nil
	return over
}

// noteHold keeps a hold that is to outlive the process. It comes before anybody is told of
// it. The caller holds mu.
func (t *Topic) noteHold(h *Hold) {
	if h.note != nil && t.record.placed != nil {
		was := local.Hold{Resource: h.resource, Client: h.client, Fence: h.fence, Priority: h.priority, Note: h.note}
		t.noted(t.record.placed.NoteHold(t.record.key, was, false))
	}
}

// forgetHold ends that, before the hold itself ends. The caller holds mu.
func (t *Topic) forgetHold(h *Hold) {
	if h.note != nil && t.record.placed != nil {
		t.noted(t.record.placed.NoteHold(t.record.key, local.Hold{Resource: h.resource}, true))
	}
}

// noted tells people when nothing can be noted.
func (t *Topic) noted(err error) {
	if err != nil {
		t.log.Warn("who may hold cannot be noted: after a restart nothing is granted for the time-to-live, and no hold of this process goes on", "error", err)
	}
}
