// Package padme is the PADME algorithm (Edmondson, Schmidt, Gokhale:
// "Fault-tolerant Quality-of-service-enabled Distributed Mutual Exclusion for
// Message-Oriented Middleware") as a deterministic state machine.
//
// Participants form a spanning tree by priority. A token for each resource rests
// at the root. A Request climbs to the root, a Reply carries the token down to
// its target, a Release carries it home; four models say in which order requests
// are served, which of them climb, and whether a participant may enter while the
// token merely passes.
//
//	messages per entry       3·depth alone; 30/7 (Fair-Forward-Forward-Forward)
//	                         down to 1.5 (Level) on the papers' 7-node tree
//	synchronization delay    one message with Direct, at best with Use, else up to 2·depth
//	assumes                  links that lose nothing while both ends live (a link
//	                         numbers, acknowledges and repeats its messages) and
//	                         clocks that drift by less than a bound
//	a crash                  of a member is repaired after the session's
//	                         time-to-live, of the root by the next one that the
//	                         record of the topic names
//
// A [Machine] has five parts, each with its own state, copy and form for the model
// checker. The links to its parent and children number, acknowledge and repeat messages.
// The tree is its place among the others, and the search for a better one. The sessions
// say who may hold: its own, and at the root those of all members and the lease of the
// record. The tokens are the locks of the topic, where each is and what becomes of one
// that is lost. The queues are the requests that it knows, in the order in which they are
// to be served.
//
// The machine knows no MQTT, no clock and no goroutine: see [protocol.Machine].
package padme

// Where to look:
//
//	machine.go core.go      Step, and what all parts share
//	timers.go receive.go    what is due, and which handler a message goes to
//	link.go                 numbers, acknowledgements, repetition
//	state.go clone.go       the state in a form to compare, and copied
//	invariants.go status.go what must hold after each step, and what is shown of it
//	settings.go forget.go   the topic's settings, and idle names
//
//	request.go              a request comes: ours, a child's, withdrawn, changed
//	ways.go                 a request comes by several children: which of them leads to its origin
//	queue.go                which of two requests of one resource comes first (compare)
//	queues.go               all queues, and which requests a participant passes up
//	patience.go deadline.go which of two queues comes first; the bound of Fair, Aging; Deadline
//	grant.go                the root serves; the target enters
//	explain.go              for people: why the root served whom
//	pass.go token.go        the token on its way down and home, and where it is
//	provisional.go          a grant to somebody who may be dead
//	retain.go               a token that stays with who used it
//	direct.go               a token that goes straight to the next one
//	schedule.go onward.go   at the root: what comes next, and what has gone on
//	holder.go               a hold that the root learns of
//	resume.go former.go     holds of the process before: of one that was the root, and of a member
//
//	tree.go join.go         the place among the others (comparePlace), and the search for a better one
//	attach.go depart.go     children come and go; a participant leaves
//	beacon.go               signs of life of the root, down the tree
//
//	ownsession.go           what entitles this participant to hold
//	sessions.go suspect.go  at the root: everybody's sessions, and who is believed dead
//	recover.go              the search for a token that may be lost
//	inherit.go              a new root learns where the tokens are
//	authority.go            what entitles a root to grant; fences
//	handover.go another.go  a planned change of the root; a root of another register
