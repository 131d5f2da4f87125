package papers

import (
	"cmp"
	"slices"
)

// PADME a second time, straight from PADME §3.2, for a static tree, one resource and
// no faults, with the bound on overtaking under Fair (docs/lock-protocol.md). It shares no code with the machine or the simulator, against which
// TestPADMEReference holds it. Times are in nanoseconds.

// naiveRequest is ⟨I,P,C⟩.
type naiveRequest struct{ node, priority, clock int }

// naiveWaiting is a request in a queue. Under Fair it comes first, in the order of
// arrival, when as many later ones were served before it as waited when it came, and
// 16 more.
type naiveWaiting struct {
	naiveRequest
	arrival, overtaken, most int
}

func (q naiveWaiting) exhausted() bool { return q.overtaken >= q.most }

// naiveNode is a participant and what it knows.
type naiveNode struct {
	naivePlace
	clock    int
	own      *naiveRequest         // waits
	queue    []naiveWaiting        // wait in the subtree, in no order
	arrivals int                   // there
	sent     map[naiveRequest]bool // to the parent, under Replace
	used     []naiveRequest        // entered on the Reply; goes onto the Release
}

type naiveEvent struct {
	at      int64
	message bool // else something an application does
	do      func()
}

type naiveRun struct {
	naiveWorld
	now                         int64
	events                      []naiveEvent // in order
	nodes                       []naiveNode
	away                        bool // the token does not rest at the root
	requests, replies, releases int  // sent
	entries                     []naiveEntry
}

// run plays w. At one instant applications act before messages arrive (PADME §4.1);
// otherwise what was planned first comes first.
func (w naiveWorld) run() *naiveRun {
	r := &naiveRun{naiveWorld: w, nodes: make([]naiveNode, len(w.places))}
	for i, p := range w.places {
		r.nodes[i] = naiveNode{naivePlace: p, sent: map[naiveRequest]bool{}}
		if p.asks {
			r.plan(0, false, func() { r.ask(i) })
		}
	}
	for len(r.events) > 0 && r.events[0].at < r.duration {
		e := r.events[0]
		r.now, r.events = e.at, r.events[1:]
		e.do()
	}
	return r
}

func (r *naiveRun) plan(after int64, message bool, do func()) {
	e := naiveEvent{r.now + after, message, do}
	i := len(r.events)
	for i > 0 && (r.events[i-1].at > e.at || r.events[i-1].at == e.at && r.events[i-1].message && !message) {
		i--
	}
	r.events = slices.Insert(r.events, i, e)
}

// head is the request of i's subtree that comes first: Level by P, Fair by (C,P), and of
// equals the one that came first. The papers end with C and I (ADR 28).
func (r *naiveRun) head(i int) naiveRequest {
	return slices.MinFunc(r.nodes[i].queue, func(a, b naiveWaiting) int {
		p, c := cmp.Compare(a.priority, b.priority), cmp.Compare(a.clock, b.clock)
		switch {
		case r.level && !r.replace:
			return cmp.Or(p, a.arrival-b.arrival)
		case r.level: // who keeps requests back hides when they came
			return cmp.Or(p, c, a.arrival-b.arrival)
		case a.exhausted() && b.exhausted():
			return a.arrival - b.arrival
		case a.exhausted():
			return -1
		case b.exhausted():
			return 1
		}
		return cmp.Or(c, p, a.arrival-b.arrival)
	}).naiveRequest
}

// overtake lets those that wait at i count q, which is served in its turn.
func (r *naiveRun) overtake(i int, q naiveRequest) {
	queue := r.nodes[i].queue
	by := slices.IndexFunc(queue, func(w naiveWaiting) bool { return w.naiveRequest == q })
	for k := range queue {
		if queue[k].arrival < queue[by].arrival {
			queue[k].overtaken++
		}
	}
	r.raise(i)
}

func (r *naiveRun) ask(i int) {
	n := &r.nodes[i]
	n.own = &naiveRequest{i, n.priority, n.clock + 1}
	r.request(i, *n.own)
}

// request queues q at i. Forward passes it on, Replace only if it is the new head.
func (r *naiveRun) request(i int, q naiveRequest) {
	n := &r.nodes[i]
	n.clock = max(n.clock, q.clock)
	n.arrivals++
	n.queue = append(n.queue, naiveWaiting{naiveRequest: q, arrival: n.arrivals, most: len(n.queue) + 16})
	switch {
	case n.parent < 0:
		r.grant(i)
	case r.replace:
		r.raise(i)
	default:
		r.climb(i, q)
	}
}

// raise sends the head up unless that is done. Replace needs this each time the head
// changes, not only when a Request comes, or a subtree is served once and never again.
func (r *naiveRun) raise(i int) {
	n := &r.nodes[i]
	if r.replace && n.parent >= 0 && len(n.queue) > 0 && !n.sent[r.head(i)] {
		n.sent[r.head(i)] = true
		r.climb(i, r.head(i))
	}
}

func (r *naiveRun) climb(i int, q naiveRequest) {
	r.requests++
	r.plan(r.latency, true, func() { r.request(r.nodes[i].parent, q) })
}

// remove takes what is served, or about to be, out of the queue of i.
func (r *naiveRun) remove(i int, list ...naiveRequest) {
	n := &r.nodes[i]
	n.queue = slices.DeleteFunc(n.queue, func(q naiveWaiting) bool { return slices.Contains(list, q.naiveRequest) })
	r.raise(i)
}

// grant gives the token, if it rests, to the head. Under Use-Reply a root that waits
// enters before; whom the Reply goes to it determines afterwards, when it sends it,
// so that what it has come to know meanwhile is served in order, too.
func (r *naiveRun) grant(root int) {
	n := &r.nodes[root]
	if r.away || len(n.queue) == 0 {
		return
	}
	q := r.head(root)
	if r.useReply && n.own != nil {
		q = *n.own
	} else {
		r.overtake(root, q)
	}
	r.away = true
	r.reply(root, q)
}

// reply is the token at i on its way down to the origin of q.
func (r *naiveRun) reply(i int, q naiveRequest) {
	n := &r.nodes[i]
	n.clock = max(n.clock, q.clock)
	if n.parent >= 0 {
		r.overtake(i, q)
	}
	pass := func() {
		child := q.node
		for r.nodes[child].parent != i {
			child = r.nodes[child].parent
		}
		r.remove(i, q)
		r.replies++
		r.plan(r.latency, true, func() { r.reply(child, q) })
	}
	switch {
	case q.node == i:
		r.enter(i, func() { r.up(i, []naiveRequest{q}) })
	case r.useReply && n.own != nil:
		n.used = append(n.used, *n.own)
		r.enter(i, pass)
	default:
		pass()
	}
}

// release is the token at i on its way up, with all who used it, the target first.
// The time of a Release is that of the grant, ⟨I,C⟩: in the papers it has no other.
func (r *naiveRun) release(i int, list []naiveRequest) {
	n := &r.nodes[i]
	n.clock = max(n.clock, list[0].clock)
	r.remove(i, list...)
	list, n.used = slices.Concat(list, n.used), nil
	if r.useRelease && n.own != nil {
		list = append(list, *n.own)
		r.enter(i, func() { r.up(i, list) })
		return
	}
	r.up(i, list)
}

// up sends the token on from i; at the root it rests.
func (r *naiveRun) up(i int, list []naiveRequest) {
	parent := r.nodes[i].parent
	if parent < 0 {
		r.away = false
		r.grant(i)
		return
	}
	r.releases++
	r.plan(r.latency, true, func() { r.release(parent, list) })
}

// enter lets the application of i in; leave is what i does with the token after.
func (r *naiveRun) enter(i int, leave func()) {
	n := &r.nodes[i]
	r.remove(i, *n.own)
	n.own = nil
	r.entries = append(r.entries, naiveEntry{r.now, i})
	r.plan(n.hold, false, func() {
		leave()
		r.plan(n.think, false, func() { r.ask(i) })
	})
}
