package padme

import (
	"padme/qosmutex/protocol"
)

// phase says where a resource's token is, as seen from here.
type phase uint8

const (
	away  phase = iota // elsewhere: above us, or with nobody we know
	home               // at rest at the root, which we are
	using              // here: our application is inside
	kept               // here: we have no parent to pass it to
	below              // passed to a child and not back yet
)

// resource is one lock of the topic.
type resource struct {
	name string
	q    queue
	tok  token
}

// token is what a participant knows of the token of one resource. It passes by
// message and has one custodian at a time; only participants that passed it on
// its recorded way may Use it on its way home.
type token struct {
	phase  phase
	grant  protocol.Grant // newest seen here
	bound  protocol.Grant // newest that a Sync was answered about: never enter on it
	target protocol.RequestID
	prio   int64 // of the target
	fences protocol.Fences
	path   []protocol.Node
	down   *link         // below: the child it was passed to
	passed protocol.Node // whom it was passed to last
	up     bool          // passed was our parent, and the token on its way home

	inside   *entry // using: our request
	fence    uint64 // using: our fence
	toTarget bool   // using: the Reply is still to be passed on afterwards
	returned bool   // kept: the grant goes back unused

	replied protocol.Entry   // our entry on the Reply; appended when the target's Release comes by (PADME §3.2)
	entries []protocol.Entry // kept while we are inside on a Release
	used    bool             // at the root: entered on this pass already

	next     uint64 // at the root: the next fence, above every range reserved
	recovery *recovery
}

// fencesFor is how many fences a grant needs that travels over hops links: one
// for the target, and for each participant between it and the root one on the
// Reply and one on the Release.
func fencesFor(hops uint32) uint64 { return 2*uint64(min(hops, maxDepth)) - 1 }

// appendReplied adds our entry on the Reply to those that came with the Release.
func (t *token) appendReplied() {
	if !t.replied.ID.IsZero() {
		t.entries = append(t.entries, t.replied)
		t.replied = protocol.Entry{}
	}
}
