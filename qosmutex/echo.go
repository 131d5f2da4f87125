package qosmutex

import "hash/maphash"

// maxEchoes bounds what a root remembers of its publications on one topic. It
// publishes each topic 50 times a second at most, so that is more than a second.
const maxEchoes = 64

var echoSeed = maphash.MakeSeed()

// echoes are publications which the broker has not yet sent back. They tell what
// the root itself wrote from what another wrote in its name: the topics of states
// and views do not name their sender, so a broker cannot tell.
type echoes struct {
	pending []uint64
	latest  uint64 // sent back or not
}

func (e *echoes) note(payload []byte) {
	e.latest = maphash.Bytes(echoSeed, payload)
	if len(e.pending) >= maxEchoes {
		e.pending = append(e.pending[:0], e.pending[1:]...)
	}
	e.pending = append(e.pending, e.latest)
}

// heard reports whether a message is our own. It forgets it, so that one that is
// played again later is another's, unless it is the latest: then it is the truth.
func (e *echoes) heard(payload []byte) bool {
	sum := maphash.Bytes(echoSeed, payload)
	for i, s := range e.pending {
		if s == sum {
			e.pending = append(e.pending[:0], e.pending[i+1:]...)
			return true
		}
	}
	return sum == e.latest
}
