package wire

import "bytes"

// room is enough for what an envelope puts before nearly every body, in bytes.
const room = 64

// A Buffer has a body, and before it room for the rest of its envelope: so that a large body
// need not be copied behind that. Reset comes before the body is written to it.
type Buffer struct{ bytes.Buffer }

// Reset empties the buffer.
func (b *Buffer) Reset() {
	b.Buffer.Reset()
	b.Write(make([]byte, room)) // does not escape, and cannot fail
}

// Body is what was written.
func (b *Buffer) Body() []byte { return b.Bytes()[room:] }

// Wrap returns the bytes of e, whose body b has, in b's own memory, as Append would write
// them. It reports false, and has changed nothing, if the room before the body is too small.
func (b *Buffer) Wrap(e *Envelope) ([]byte, bool) {
	var head [room]byte
	h := appendBinHead(appendHead(head[:0], e), len(e.Body))
	if len(h) > room {
		return nil, false
	}
	all := b.Bytes()[room-len(h):]
	copy(all, h)
	return all, true
}
