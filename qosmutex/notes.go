package qosmutex

import (
	"context"
	"slices"
	"time"

	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// Holds with a note are kept beside the file of the register, as the members are: noted
// before anybody is told of them, and forgotten before the machine leaves them. What is
// noted is thus a part of what the process was inside of when it ended. With it stands
// the term in which this participant is the root: the next process goes on with the holds
// only if the record still names that one.

// MaxNote bounds what WithNote keeps, in bytes.
const MaxNote = 512

// heldNotes is what is noted of holds.
type heldNotes struct {
	term     uint64           // in which we are the root, as it is noted; 0: we are not
	placed   bool             // we have had a place in this process
	resuming map[uint64]*Hold // of the process before, by Ref, until it is known which of them go on
	resumed  []*Hold
}

// Resumed returns the holds of an earlier process that go on in this one (see WithNote), in
// order of resources: all that there will be, once Open has returned. Who opened the topic
// with Resume MUST see to each of them, and unlock those that nobody goes by any more.
func (t *Topic) Resumed() []*Hold {
	if t.made() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.record.notes.resumed)
}

// Note returns what WithNote was given.
func (h *Hold) Note() []byte {
	if h.made() != nil {
		return nil
	}
	return slices.Clone(h.note)
}

// readNotes makes requests of what the process before held.
func (t *Topic) readNotes(p placed, key string) (list []protocol.Held, term uint64) {
	held, term := p.Held(key)
	n := &t.record.notes
	n.term, n.resuming = term, map[uint64]*Hold{}
	for i := range held {
		was := &held[i]
		t.lastRef++
		h := &Hold{
			of: t, parent: context.Background(), ref: t.lastRef, resource: was.Resource, client: was.Client, fence: was.Fence,
			priority: was.Priority, fixed: true, note: append([]byte{}, was.Note...), requested: time.Now(),
		}
		n.resuming[h.ref], t.calls[h.ref] = h, h
		list = append(list, protocol.Held{Ref: h.ref, Resource: h.resource, Client: h.client, Fence: h.fence, Priority: h.priority})
	}
	if !t.resumes {
		return list, 0 // so none goes on
	}
	return list, term
}

// noteRoot notes in which term this participant is the root, and, once it has a place,
// which holds of the process before do not go on. The caller holds mu.
func (t *Topic) noteRoot() {
	n := &t.record.notes
	if t.record.placed == nil {
		return
	}
	role, epoch := t.record.candidate.Term()
	term := uint64(0)
	if role == protocol.Root {
		term = epoch.Number
	}
	if !n.placed && role != protocol.Root && t.status.Session == 0 {
		return // whether the process before goes on in this one is not known yet
	}
	n.placed = true
	if len(n.resuming) > 0 {
		t.resume()
	}
	if n.term != term {
		n.term = term
		t.noted(t.record.placed.NoteTerm(t.record.key, term))
	}
}

// resume takes the holds that go on. If others do not, somebody may still go by them.
func (t *Topic) resume() {
	n := &t.record.notes
	for i := range t.out.Grants {
		if h := n.resuming[t.out.Grants[i].Ref]; h != nil {
			n.resumed = append(n.resumed, h)
			delete(n.resuming, h.ref)
		}
	}
	if len(n.resuming) > 0 {
		t.noted(t.record.placed.ForgetHolds(t.record.key)) // those that go on are noted again when they are granted
	}
	for _, h := range n.resuming {
		delete(t.calls, h.ref)
		t.fail(h, h.lostError())
		t.log.Warn("a hold of the process before this one does not go on: another root may have let somebody in, or the topic has no such resource any more",
			"resource", h.resource, "fence", h.fence)
	}
	n.resuming = nil
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
