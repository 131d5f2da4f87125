package padme

import (
	"slices"
	"strings"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// tokens are all locks of the topic.
type tokens struct {
	resources []*resource    // by name
	grants    uint64         // at the root: number of the last grant
	fences    uint64         // at the root: floor for resources not seen yet
	bound     protocol.Grant // of a token not seen yet
	forgotten protocol.Grant // the newest of a token that was forgotten
	maxIdle   int
	forgetAt  int           // more resources than this are too many; see forgetIdle
	nextDue   protocol.Time // none that we gave, as the root, or hold ends before
}

func (s *tokens) write(w *canonical.Writer, m *Machine) {
	w.Named(canonical.SortGrant, s.grants)
	w.Named(canonical.SortFence, s.fences)
	w.Grant(s.bound)
	w.Grant(s.forgotten)
	w.Uint(uint64(s.forgetAt), uint64(len(s.resources)))
	for _, r := range s.resources {
		w.Text(r.q.resource)
		r.tok.write(w, m)
	}
}

// phase says where a resource's token is, as seen from here.
type phase uint8

const (
	away  phase = iota // elsewhere: above us, or with nobody we know
	home               // at rest at the root, which we are
	using              // here: our application is inside
	kept               // here: we have no parent to pass it to, or retain it
	below              // passed to a child and not back yet
)

// resource is one lock of the topic.
type resource struct {
	q   queue // has its name
	tok token
}

// token is what a participant knows of the token of one resource. It passes by
// message and has one custodian at a time; only participants that passed it on
// its recorded way may Use it on its way home.
type token struct {
	phase    phase
	toTarget bool // using: the Reply is still to be passed on afterwards
	returned bool // kept: the grant goes back unused; or it did so
	used     bool // at the root: entered on this pass already
	retain   bool // its target may keep it when it leaves, and alone enters on it
	idle     bool // at the root: the target has left, and kept it
	wanted   bool // home: somebody waited when it came

	grant  protocol.Grant // newest seen here
	bound  protocol.Grant // newest that a Sync was answered about, or of before our session: never enter on it
	target protocol.RequestID
	prio   int64 // of the target
	fences protocol.Fences
	down   *link          // below: the child it was passed to
	passed *protocol.Node // whom it was passed to last; nil: nobody

	follows *succession // the grants that come next, as far as is known; nil: none ever came

	inside *entry // using: our request
	fence  uint64 // using: our fence

	entries []protocol.Entry // made on this grant, to go home with it: our own on the Reply with the target's Release (PADME §3.2)

	until   protocol.Time // when a grant ends that is not confirmed, on its target's clock, or on ours if we gave it; 0: with the session
	entered protocol.Time // using or kept: since when

	back     protocol.Time // at the root: when the grant should be home again; Never: unknown
	next     uint64        // at the root: the next fence, above every range reserved
	recovery *recovery
	holder   *holder // at the root: who has named its hold to have it confirmed; nil: nobody has. For Status and doubt
}

// sole reports, at the root, whether only the target can enter on the grant, which is out.
func (t *token) sole() bool { return t.retain || t.fences.End == t.fences.Next+1 }

// find returns the record of a resource, or nil.
func (s *tokens) find(name string) *resource {
	if i, ok := s.search(name); ok {
		return s.resources[i]
	}
	return nil
}

func (s *tokens) search(name string) (int, bool) {
	if len(s.resources) == 1 && s.resources[0].q.resource == name { // as most topics have it
		return 0, true
	}
	return slices.BinarySearchFunc(s.resources, name, func(r *resource, n string) int { return strings.Compare(r.q.resource, n) })
}

// bind makes sure that we enter on no grant up to g, nor pass one down. It is for good:
// an earlier grant does not undo it.
func (t *token) bind(g protocol.Grant) {
	if t.bound.Compare(g) < 0 {
		t.bound = g
	}
}

// fencesFor is how many fences a grant needs that travels over hops links: one
// for the target, and where somebody may Use it on its way, for each participant
// between it and the root one on the Reply and one on the Release.
func (m *Machine) fencesFor(hops uint32) uint64 {
	if hops == 0 || !m.uses(m.settings.Models.Reply) && !m.uses(m.settings.Models.Release) {
		return 1
	}
	return 2*uint64(min(hops, maxDepth)) - 1
}

func (t *token) write(w *canonical.Writer, m *Machine) {
	w.Uint(uint64(t.phase))
	if w.Is(m.ends(t)) {
		w.Age(t.until, 2*m.timing.TTL)
	}
	if t.unconfirmed() {
		w.Age(t.entered, m.provisionalSpan())
	}
	w.Flags(t.toTarget && t.phase == using, t.returned && (t.phase == kept || m.wentUp(t)), t.used, t.passed != nil, t.retain, t.idle, t.wanted && t.phase == home)
	w.Grant(t.grant)
	if bound := t.bound; bound.Compare(t.grant) < 0 {
		w.Grant(protocol.Grant{}) // what is older than grant is refused anyhow
	} else {
		w.Grant(bound)
	}
	t.writeSchedule(w, m)
	w.Named(canonical.SortFence, t.next)
	if t.passed != nil {
		w.Node(*t.passed)
	}
	switch {
	case t.phase != home:
		w.ID(t.target)
		w.Entries(t.entries)
	case m.retains():
		w.Node(t.target.Node)
	}
	if t.phase == kept && t.retain {
		w.Age(t.entered, m.timing.TTL)
	}
	switch t.phase {
	case using:
		w.Named(canonical.SortFence, t.fence)
		w.ID(t.inside.id)
		w.Int(t.prio) // for the Reply that is still to go on; else it is only reported
		fallthrough
	case kept, below:
		w.Fences(t.fences)
	}
	if t.phase == below {
		t.down.writeName(w)
		if m.role == protocol.Root {
			for _, o := range m.members {
				w.Flags(o.after.Compare(t.grant) < 0)
			}
		}
	}
	if m.role == protocol.Root && t.phase != home {
		w.Left(t.back)
	}
	rec := t.recovery
	if w.Flags(rec != nil); rec == nil {
		return
	}
	w.Flags(rec.all, rec.unreported, rec.recall)
	if !rec.all || rec.recall {
		w.Left(rec.until)
	}
	w.Nodes(rec.pending)
	w.Nodes(rec.answered)
	if w.Is(t.holder != nil) {
		w.Node(t.holder.entry.ID.Node)
	}
}

// writeSchedule leaves out what comes before the grant, which is not read again.
func (t *token) writeSchedule(w *canonical.Writer, m *Machine) {
	list := t.ahead()
	var s succession
	if t.follows != nil {
		s = *t.follows
	}
	if m.role == protocol.Root {
		w.Flags(s.direct && t.phase == below, s.forwarded, s.told)
		w.Uint(uint64(s.outdated))
		list = s.list
	} else if s.version.Compare(t.grant) <= 0 {
		s.version = protocol.Grant{}
	}
	w.Grant(s.version)
	w.Schedule(list)
}
