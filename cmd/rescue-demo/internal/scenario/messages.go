package scenario

import "padme/qosmutex/protocol"

// Messages returns how many messages of the kinds that the papers count were
// sent.
func Messages(c protocol.Counters) (n uint64) {
	for kind, sent := range c.Sent {
		if protocol.Kind(kind).Counted() {
			n += sent
		}
	}
	return n
}
