package qosmutex

import (
	"time"

	"padme/qosmutex/protocol"
)

// notice is the state of one resource as the root will publish it.
type notice struct {
	resource string
	dirty    bool
	latest   entered // of all entries that are known, the one with the highest fence
	over     bool    // latest has left
	first    uint64  // entries below this fence were made in an earlier term and are over
	says     claim   // as of the last State made
	since    time.Time
	passages passages
	last     State // as published
	shown    bool  // last was published
	sent     echoes
}

// entered is one entry.
type entered struct {
	who      string
	priority int64
	fence    uint64 // 0: none is known
	at       time.Time
}

// claim is what a State says of the token.
type claim struct {
	status          string
	holder, grantee string
	fence           uint64 // of the holder
}

// begin forgets what was known in an earlier term: others may have entered since.
func (n *notice) begin(r *protocol.ResourceStatus) {
	n.latest, n.over, n.says, n.shown = entered{}, false, claim{}, false
	if n.first = r.Fence; r.Holder.Fence != 0 {
		n.first = r.Holder.Fence
	}
}

// believes reports whether an entry with this fence can be the latest, or be one after
// it. What is told late of an entry in an earlier term may lie below others.
func (n *notice) believes(r *protocol.ResourceStatus, fence uint64) bool {
	out := !r.Lost && r.Fences.End != 0
	return fence >= n.first || out && fence >= r.Fences.Next || r.Holder.Fence != 0 && fence >= r.Holder.Fence
}

// enter notes an entry. What is known of this or a later entry stays.
func (n *notice) enter(e entered) (news bool) {
	if e.fence <= n.latest.fence {
		return false
	}
	n.latest, n.over = e, false
	return true
}

// leave notes that an entry is over.
func (n *notice) leave(e entered) (news bool) {
	if e.fence < n.latest.fence || e.fence == n.latest.fence && n.over {
		return false
	}
	if e.fence > n.latest.fence { // its beginning was not told
		n.latest = e
	}
	n.over = true
	return true
}

// follow takes in what the machine knows of entries.
func (n *notice) follow(r *protocol.ResourceStatus, self string) {
	if h := &r.Holder; h.Fence != 0 {
		n.enter(entered{h.ID.Node.ID, r.HolderP, h.Fence, time.Now()})
	}
	if n.latest.who == self && !r.Inside {
		n.over = true
	}
}

// claim says what is known of the token: static, from events alone.
func (n *notice) claim(r *protocol.ResourceStatus, static bool) claim {
	e := &n.latest
	present := e.fence != 0 && (static || r.Holder.Fence == e.fence || within(r.Fences, e.fence))
	switch {
	case r.Inside || present && !n.over && !r.Free && !r.Lost:
		return claim{status: StatusHeld, holder: e.who, fence: e.fence}
	case r.Free || static:
		return claim{status: StatusFree}
	case r.Lost:
		return claim{status: StatusUnknown}
	}
	c := claim{status: StatusGranted}
	if !present || e.who != r.Target.Node.ID { // else it has left, and the token is on its way back
		c.grantee = r.Target.Node.ID
	}
	return c
}

// within reports whether a fence is one of a grant; those of zero are unknown.
func within(f protocol.Fences, fence uint64) bool {
	return f == protocol.Fences{} || f.Next <= fence && fence < f.End
}

// state describes a resource as r and events tell of it.
func (t *Topic) stateOf(n *notice, r *protocol.ResourceStatus) State {
	n.follow(r, t.self.ID)
	s := State{
		Topic: t.name, Resource: n.resource, Waiting: r.Waiting, Epoch: t.status.Epoch.String(), Root: t.self.ID,
	}
	if n.latest.fence != 0 {
		s.Fence = formatFence(n.latest.fence)
	}
	c := n.claim(r, t.algorithm.Static)
	if c != n.says {
		n.says, n.since = c, time.Now()
		if c.status == StatusHeld {
			n.since = n.latest.at
		}
	}
	s.Status, s.Holder, s.Grantee, s.Since = c.status, c.holder, c.grantee, n.since.UTC()
	switch {
	case c.holder != "":
		s.Priority = n.latest.priority
	case c.grantee != "":
		s.Priority = r.TargetP
	}
	for _, w := range r.Queue[:min(len(r.Queue), maxQueue)] {
		s.Queue = append(s.Queue, Waiter{Participant: w.ID.Node.ID, Priority: w.Priority, Any: w.Any})
	}
	return s
}
