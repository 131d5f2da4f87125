package pubsub

import "errors"

// maxInFlight bounds the publishes of one lane which the broker has not
// acknowledged. Brokers drop QoS 1 messages silently when a subscriber is
// thousands behind; with a hundred per publisher all were delivered, and a
// hundred keep a local broker busy.
const maxInFlight = 100

// flight holds what was published on a link and not acknowledged yet, oldest
// first.
type flight struct {
	receipts []receipt
	packets  []packet // what to publish again should the connection be lost
}

// add remembers p.
func (f *flight) add(r receipt, p packet) {
	f.receipts = append(f.receipts, r)
	f.packets = append(f.packets, p)
}

func (f *flight) full() bool { return len(f.receipts) >= maxInFlight }

func (f *flight) empty() bool { return len(f.receipts) == 0 }

// oldest is closed when the oldest was answered. It must not be empty.
func (f *flight) oldest() <-chan struct{} { return f.receipts[0].token.Done() }

// errUnacknowledged is why a link is given up whose publishes fail.
var errUnacknowledged = errors.New("pubsub: the connection was lost before the broker acknowledged")

// reap forgets what was answered. It reports whether a publish has failed, which
// means that the link is lost, though the client may not have said so yet.
func (f *flight) reap() (failed bool) {
	n := 0
	for n < len(f.receipts) && !failed && f.receipts[n].done() {
		if failed = f.receipts[n].token.Error() != nil; !failed {
			n++
		}
	}
	if n == 0 {
		return failed
	}
	rest := copy(f.receipts, f.receipts[n:])
	copy(f.packets, f.packets[n:])
	clear(f.receipts[rest:])
	clear(f.packets[rest:])
	f.receipts, f.packets = f.receipts[:rest], f.packets[:rest]
	return failed
}
