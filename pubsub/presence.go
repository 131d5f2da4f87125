package pubsub

import (
	"context"
	"iter"
	"time"
)

// Presence tells that a participant was born or died.
type Presence struct {
	ID          string
	Incarnation uint64 // of the participant's process
	Epoch       uint64 // of its connection; grows with every birth
	Alive       bool   // false after its death, announced by itself or by the broker
	// Since is when the participant was born or closed, by its clock. A death
	// that the broker announced has the time of the birth.
	Since time.Time
	// Closed says of a death that it was no crash: the participant was closed, and left word
	// with the broker for readers that may lack some of its samples. Where no reader may, the
	// broker keeps nothing of a participant that was closed, and this stays false.
	Closed   bool
	UserData map[string]string // what it gave to WithUserData
}

// Peers yields the presence of every participant of the domain, this one
// included: first those that the broker remembers, the dead among them, then
// changes, until ctx or the participant ends. A reader that is slow sees the
// latest presence of each. The error is yielded last, once: why the iteration
// could not begin or go on; nil values never come with it.
func (p *Participant) Peers(ctx context.Context) iter.Seq2[Presence, error] {
	p = p.orEnded()
	return func(yield func(Presence, error) bool) {
		for pr, err := range p.directory.Peers(ctx) {
			if !yield(Presence(pr), err) {
				return
			}
		}
	}
}
