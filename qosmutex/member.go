package qosmutex

import (
	"encoding/json"

	"padme/qosmutex/protocol"
)

// Member is the place of one participant in the tree of a topic, as that participant
// reports it: retained JSON on R/lock/{topic}/member/{P}, cleared when it leaves normally.
// It is valid while the presence of P is alive and has the same incarnation.
type Member struct {
	Topic       string `json:"topic"`
	Participant string `json:"participant"`
	Incarnation uint64 `json:"incarnation,string"`  // as in its presence
	Role        string `json:"role"`                // root, member, or joining if it has lost its parent
	Parent      string `json:"parent,omitempty"`    // of a member
	Root        string `json:"root,omitempty"`      // the root that it recognizes
	Priority    int64  `json:"priority"`            // which determines its place in the tree
	Candidate   bool   `json:"candidate"`           // it can become the root
	Elsewhere   bool   `json:"elsewhere,omitempty"` // it uses another register than the root: give all that create the topic the same one
	Epoch       string `json:"epoch"`
}

// place is what a Member says that can change.
type place struct {
	role         protocol.Role
	parent, root string
	priority     int64
	candidate    bool
	elsewhere    bool
	epoch        protocol.Epoch
}

// standing is the place of this participant: as it is, and as it was published.
type standing struct {
	place, shown place
	known        bool // place is one: there was a parent, or this is the root
	published    bool // the broker has a Member of ours
	again        bool // or it may have forgotten it
}

// noteStanding notes where the participant stands after its status has changed. The
// caller holds mu.
func (t *Topic) noteStanding() {
	st, s := &t.status, &t.standing
	if st.Role == protocol.Member || st.Role == protocol.Root {
		s.known = true
	}
	is := place{
		role: st.Role, parent: st.Parent.ID, root: st.Root.ID, priority: st.Priority,
		candidate: t.register != nil, epoch: st.Epoch,
	}
	if t.record.elsewhere {
		is.candidate, is.elsewhere = false, true
	}
	switch st.Role {
	case protocol.Member:
	case protocol.Root:
		is.parent = ""
	case protocol.Departed:
		s.known = false
	default:
		is.role, is.parent = protocol.Joining, ""
	}
	if is != s.place {
		s.place = is
		t.flushSoon(flushAfter)
	}
}

// publishMember publishes the own place if it has changed. At the end it takes it
// back.
func (t *Topic) publishMember() {
	t.mu.Lock()
	s := &t.standing
	is, published := s.place, s.published
	gone := !s.known || t.ended
	same := gone && !published || !gone && published && !s.again && is == s.shown
	if !same {
		s.shown, s.published, s.again = is, !gone, false
	}
	t.mu.Unlock()
	if same {
		return
	}
	levels := []string{"lock", t.name, "member", t.self.ID}
	if gone {
		t.publishSide(levels, nil, true)
		return
	}
	payload, err := json.Marshal(Member{
		Topic: t.name, Participant: t.self.ID, Incarnation: t.p.Incarnation(), Role: is.role.String(), Parent: is.parent,
		Root: is.root, Priority: is.priority, Candidate: is.candidate, Elsewhere: is.elsewhere, Epoch: is.epoch.String(),
	})
	if err != nil {
		t.log.Error("not written", "levels", levels, "error", err)
		return
	}
	t.publishSide(levels, payload, true)
}
