package pubsub

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

// add remembers p; its payload only if it is kept for a lost connection.
func (f *flight) add(r receipt, p packet) {
	if !p.retain {
		p.payload = nil
	}
	f.receipts = append(f.receipts, r)
	f.packets = append(f.packets, p)
}

func (f *flight) full() bool { return len(f.receipts) >= maxInFlight }

func (f *flight) empty() bool { return len(f.receipts) == 0 }

// oldest is closed when the oldest was answered. It must not be empty.
func (f *flight) oldest() <-chan struct{} { return f.receipts[0].token.Done() }

// reap forgets what was answered.
func (f *flight) reap() {
	n := 0
	for n < len(f.receipts) && f.receipts[n].done() {
		n++
	}
	if n == 0 {
		return
	}
	rest := copy(f.receipts, f.receipts[n:])
	copy(f.packets, f.packets[n:])
	clear(f.receipts[rest:])
	clear(f.packets[rest:])
	f.receipts, f.packets = f.receipts[:rest], f.packets[:rest]
}
