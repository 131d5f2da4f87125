package qosmutex

import (
	linked "container/list"
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
	fence    uint64  // of latest, likewise
	since    time.Time
	passages passages
	last     State           // as published
	shown    bool            // last was published
	cleared  bool            // or that there is nothing to show
	idle     *linked.Element // its place in the board's, nil: none
	faded    bool            // not shown before it is used again
	busy     bool            // as of the last look
	listed   bool            // among the busy of the board
	sent     echoes
	decided  decided
}

// entered is one entry.
type entered struct {
	who      string // the participant
	client   string // on whose behalf; empty: itself
	priority int64
	fence    uint64 // 0: none is known
	at       time.Time
	how      protocol.How
}

// formerState is what is read of the State of another root.
type formerState struct {
	Epoch, Status, Fence, How string
	Since                     time.Time
}

// claim is what a State says of the token.
type claim struct {
	status          string
	holder, grantee string
	via             string // of either
	fence           uint64 // of the holder
}

// begin forgets what was known in an earlier term: others may have entered since.
func (n *notice) begin(r *protocol.ResourceStatus) {
	n.latest, n.over, n.says, n.shown, n.cleared = entered{}, false, claim{}, false, false
	n.decided = decided{}
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

// enter notes an entry. What is known of this or a later entry stays, but the machine may
// have told of it before its event came, which says more.
func (n *notice) enter(e entered) (news bool) {
	if l := &n.latest; e.fence == l.fence && e.who == l.who && e.client == l.client {
		return n.learn(e.how, e.at)
	}
	if e.fence <= n.latest.fence {
		return false
	}
	n.latest, n.over = e, false
	return true
}

// learn notes how and when the latest entry began; what is known of it stays, but for a later
// time: the machine tells of an entry when it learns of it.
func (n *notice) learn(how protocol.How, at time.Time) (news bool) {
	e := &n.latest
	if e.how != protocol.HowUnknown && e.how != protocol.HowResumed {
		return false
	}
	if how != protocol.HowUnknown && how != e.how {
		e.how, news = how, true
	}
	if at.IsZero() || !at.Before(e.at) {
		return news
	}
	e.at = at
	if n.says.status == StatusHeld && n.says.fence == e.fence {
		n.since = at
	}
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

// updateEntries takes in what the machine knows of entries.
func (n *notice) updateEntries(r *protocol.ResourceStatus, self string) {
	if h := &r.Holder; h.Fence != 0 {
		n.enter(entered{h.ID.Node.ID, r.HolderClient, r.HolderP, h.Fence, time.Now(), protocol.HowUnknown})
		if n.latest.fence == h.Fence {
			n.latest.priority = r.HolderP // of a hold that a new root finds it comes last
		}
	}
	if n.latest.who == self && !r.Inside {
		n.over = true
	}
}

// recall takes from the state of a former root when and how the entry began that goes on: we
// know only since when we are the root.
func (n *notice) recall(s *formerState) {
	if s.Status == StatusHeld && n.latest.fence != 0 && parseFence(s.Fence) == n.latest.fence {
		n.learn(protocol.ParseHow(s.How), s.Since)
	}
}

// claim says what is known of the token.
func (n *notice) claim(r *protocol.ResourceStatus) claim {
	e := &n.latest
	present := e.fence != 0 && (r.Holder.Fence == e.fence || within(r.Fences, e.fence))
	switch {
	case r.Inside || present && !n.over && !r.Free && !r.Lost:
		c := claim{status: StatusHeld, fence: e.fence}
		c.holder, c.via = asker(e.who, e.client)
		return c
	case r.Free || r.Retained:
		return claim{status: StatusFree}
	case r.Lost:
		return claim{status: StatusUnknown}
	}
	c := claim{status: StatusGranted}
	if !present || e.who != r.Target.Node.ID { // else it has left, and the token is on its way back
		c.grantee, c.via = asker(r.Target.Node.ID, r.TargetClient)
	}
	return c
}

// within reports whether a fence is one of a grant; those of zero are unknown.
func within(f protocol.Fences, fence uint64) bool {
	return f == protocol.Fences{} || f.Next <= fence && fence < f.End
}

// state describes a resource as r and events tell of it.
func (t *Topic) stateOf(n *notice, r *protocol.ResourceStatus) State {
	n.updateEntries(r, t.self.ID)
	s := State{
		Topic: t.name, Resource: n.resource, Waiting: r.Waiting, Epoch: t.status.Epoch.String(), Root: t.self.ID,
	}
	if n.latest.fence != 0 {
		s.Fence = formatFence(n.latest.fence)
	}
	c := n.claim(r)
	if c != n.says || n.latest.fence != n.fence { // somebody may have been in since
		n.says, n.fence, n.since = c, n.latest.fence, time.Now()
		if c.status == StatusHeld {
			n.since = n.latest.at
		}
	}
	s.Status, s.Holder, s.Grantee, s.Via, s.Since = c.status, c.holder, c.grantee, c.via, n.since.UTC()
	switch {
	case c.holder != "":
		s.Priority, s.How = n.latest.priority, n.latest.how.String()
	case c.grantee != "":
		s.Priority = r.TargetP
	}
	for _, w := range r.Queue[:min(len(r.Queue), maxQueue)] {
		s.Queue = append(s.Queue, t.waiterOf(&w))
	}
	s.Decision = t.decisionOf(n)
	return s
}
