package qosmutex

import "time"

// Remaining returns how long from now Check will pass if the root (for a Client: its
// server) is not heard again, and 0 if Check does not pass now. It is at most the TTL of
// the topic, and half of that until the root has confirmed the hold. Like Check it reads
// the clock and does not block.
func (h *Hold) Remaining() time.Duration {
	if h.Check() != nil {
		return 0
	}
	return time.Duration(max(h.until.Load()-int64(h.of.now()), 0))
}
