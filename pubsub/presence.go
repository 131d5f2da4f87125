package pubsub

import (
	"context"
	"iter"
	"time"
)

// Presence reports the birth or death of a participant.
type Presence struct {
	ID          string
	Incarnation uint64 // of the participant's process
	Epoch       uint64 // of its connection; grows with every birth
	Alive       bool   // false after its death, announced by itself or by the broker
	// Since is when the participant was born or closed, by its clock. A death that the
	// broker announced has the time of the birth.
	Since time.Time
	// Closed says that a death was not a crash: the participant was closed, and left a
	// note at the broker for readers that may lack some of its samples. If no reader may lack any,
	// the broker retains nothing of a closed participant, and Closed stays false.
	Closed   bool
	UserData map[string]string // of WithUserData
}

// Peers yields the presence of every participant of the domain, including this one: first
// those that the broker retains, including dead ones, then changes, until ctx or the
// participant ends. A slow reader sees the latest presence of each. An error is yielded
// last, once, without a presence: why the iteration could not begin or continue.
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
