package connection

import (
	"errors"
	"math"
	"sync"
)

// MaxInFlight bounds the publishes of one lane which the broker has not
// acknowledged. Brokers drop QoS 1 messages silently when a subscriber is
// thousands behind; with a hundred per publisher all were delivered, and a
// hundred keep a local broker busy.
const MaxInFlight = 100

// MaxFlightBytes bounds their payloads, which wait in memory while the broker does not read.
const MaxFlightBytes = 4 << 20

// flight holds what was published on a link and not acknowledged yet, oldest
// first. One goroutine calls its methods, but passed, which any may call.
type flight struct {
	mu       sync.Mutex // of changes
	receipts []receipt
	bytes    int
	packets  []Packet // what to publish again should the connection be lost
	last     uint64   // place of the last packet taken from the outbox; 0 for none yet
	writing  bool     // that one
}

// add remembers p.
func (f *flight) add(r receipt, p Packet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.receipts = append(f.receipts, r)
	f.bytes += r.size
	f.packets = append(f.packets, p)
}

func (f *flight) full() bool { return len(f.receipts) >= MaxInFlight || f.bytes >= MaxFlightBytes }

func (f *flight) empty() bool { return len(f.receipts) == 0 }

// largest is the size of the largest payload.
func (f *flight) largest() (bytes int) {
	for _, r := range f.receipts {
		bytes = max(bytes, r.size)
	}
	return bytes
}

// took notes a packet that was taken from the outbox, which is written until wrote.
func (f *flight) took(p *Packet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.place > 0 {
		f.last, f.writing = p.place, true
	}
}

// wrote notes that the packet taken last is written, and added if that is not the end of it.
func (f *flight) wrote() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writing = false
}

// passed is the place up to which all packets are done with: those that an earlier
// connection took along are.
func (f *flight) passed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.receipts {
		if !r.done() {
			return f.packets[i].place - 1
		}
	}
	switch {
	case f.last == 0:
		return math.MaxUint64
	case f.writing:
		return f.last - 1
	}
	return f.last
}

// oldest is closed when the oldest was answered. It must not be empty.
func (f *flight) oldest() <-chan struct{} { return f.receipts[0].token.Done() }

// landed is closed when it is worth a look whether all was answered: seldom more than
// once for what was published together. It is nil when there is nothing to wait for.
func (f *flight) landed() <-chan struct{} {
	if f.empty() {
		return nil
	}
	if newest := f.receipts[len(f.receipts)-1]; !newest.done() {
		return newest.token.Done()
	}
	return f.oldest()
}

// errUnacknowledged is why a link is given up whose publishes fail.
var errUnacknowledged = errors.New("pubsub: the connection was lost before the broker acknowledged")

// reap forgets what was answered. It reports whether a publish has failed, which
// means that the link is lost, though the client may not have said so yet.
func (f *flight) reap() (failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.receipts) && !failed && f.receipts[n].done() {
		if failed = f.receipts[n].token.Error() != nil; !failed {
			f.bytes -= f.receipts[n].size
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
