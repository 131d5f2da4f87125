package reliable

import "sync"

// minReused is from how many bytes on the memory of a sample is used again. Below, the
// garbage collector is as cheap.
const minReused = 64 << 10

// headRoom is enough for what an envelope puts before nearly every body, in bytes.
const headRoom = 64

// memory has buffers of samples that nobody holds any more, as *[]byte.
var memory sync.Pool

// buffer returns an empty one for a sample with n bytes of body.
func buffer(n int) []byte {
	n += headRoom
	if n < minReused {
		return make([]byte, 0, n)
	}
	if b, ok := memory.Get().(*[]byte); ok && n <= cap(*b) && cap(*b) <= 4*n {
		return (*b)[:0]
	}
	return make([]byte, 0, headRoom) // append makes the rest, and does not clear it first
}

// reuse takes back the memory of a sample that is not held any more, unless somebody else
// may have it: the broker's retained values are kept to be published again, and a packet
// may be on its way.
func (s *Sender) reuse(h *heldSample) {
	if cap(h.payload) >= minReused && s.retention == nil && h.place <= s.out.Passed() {
		memory.Put(&h.payload)
	}
}
