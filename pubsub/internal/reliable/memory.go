package reliable

import (
	"math"
	"sync"

	"padme/pubsub/internal/wire"
)

// buffers have grown already, unlike new ones. The garbage collector takes those that are not
// used for a while.
var buffers = sync.Pool{New: func() any { return new(wire.Buffer) }}

// NewBuffer returns a buffer to which a body is to be written.
func NewBuffer() *wire.Buffer {
	b := buffers.Get().(*wire.Buffer)
	b.Reset()
	return b
}

// Free gives a buffer back, to be used by another sample. Its memory must not be read after
// that. Nil is none.
func Free(b *wire.Buffer) {
	if b != nil {
		buffers.Put(b)
	}
}

// minTaken is from how many bytes on a sample stays in the memory that it was encoded in.
// A small one is copied, so that it takes no more memory than it needs.
const minTaken = 64 << 10

// serialize returns the bytes of e, and the buffer whose memory they are, which is then the
// sender's; nil if they are a copy.
func serialize(e *wire.Envelope) ([]byte, *wire.Buffer) {
	if e.Buffer != nil && len(e.Body) >= minTaken && e.Buffer.Cap() <= 4*len(e.Body) {
		if payload, ok := e.Buffer.Wrap(e); ok {
			return payload, e.Buffer
		}
	}
	return wire.Append(make([]byte, 0, len(e.Body)+64), e), nil
}

// free gives back the memory of a sample that is not held any more, unless it may still be
// read: a retained one is kept to be published again, and one that the broker has not
// acknowledged may still be written to it. Without a connection that is not known.
func (s *Sender) free(h *heldSample) {
	if h.buffer == nil || s.retention != nil || !s.qos.Reliable {
		return
	}
	if passed := s.out.Passed(); passed != math.MaxUint64 && h.place <= passed {
		Free(h.buffer)
	}
}
