package classic

import (
	"errors"

	"padme/qosmutex/protocol"
)

// fence is the highest fence that a participant knows to have been given for a
// resource, or the floor. Every message that is, or gives, permission to enter
// carries it as Fences{Next: f, End: f}, and so does every Release. Who enters
// takes one more than the highest it knows.
//
// Fences rise because of two consecutive entries A and B, B had a message which was
// sent after A left, by someone who knew A's fence: the token or the server's Reply
// itself; Lamport's Release; the Reply that A deferred (Ricart and Agrawala); the
// vote of a voter common to both, which was free for B only with A's Release
// (Maekawa, voting). Each core says so again where it is decided.
type fence uint64

// maxFence is beyond what any sequence of entries reaches. A higher one is forged:
// counting on from it might wrap.
const maxFence = 1 << 62

// next is the fence of an entry that is made now.
func (f *fence) next() uint64 {
	*f++
	return uint64(*f)
}

// put writes the fence into a message.
func (f *fence) put(m *protocol.Message) {
	m.Fences = protocol.Fences{Next: uint64(*f), End: uint64(*f)}
}

// learn takes over what a message that passed checkFence knows.
func (f *fence) learn(m *protocol.Message) { *f = max(*f, fence(m.Fences.Next)) }

var errFence = errors.New("fences that nobody knows")

func checkFence(m *protocol.Message) error {
	if m.Fences.Next != m.Fences.End || m.Fences.Next > maxFence {
		return errFence
	}
	return nil
}
