package connection

import "padme/internal/wait"

// MaxJoined bounds the messages that go out as one, together, in bytes: some fifty of the
// locks'. Brokers may limit a message, and whoever receives it has the work of each.
const MaxJoined = 4 << 10

// hold keeps what is put for a moment, so that messages to the same topic go out as one.
// The zero value holds nothing.
type hold struct {
	holders int
	free    uint64            // the place up to which packets may go out all the same
	joins   map[string]uint64 // the place of the packet of each topic that others may join
}

// Hold has what is put from now on wait for Release. Meanwhile packets that may join those
// before them on their topic do so. Several may hold at a time, and each Release lets all go
// that was put before it: nothing waits longer than the first of them holds.
func (f *Queue) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hold.holders == 0 {
		f.hold.free = f.placed
	}
	f.hold.holders++
}

// Release ends a Hold.
func (f *Queue) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold.holders--
	f.hold.free = f.placed
	clear(f.hold.joins)
	wait.Signal(f.wake)
}

// joinHeld puts p into the packet before it on its topic, if both may share a message and
// that still waits; f.mu is held.
func (f *Queue) joinHeld(p *Packet) bool {
	if f.hold.holders == 0 || !p.Joins {
		return false
	}
	e := f.queue.at(f.hold.joins[p.Topic])
	if e == nil || len(e.Payload)+len(p.Payload) > MaxJoined || f.bytes+len(p.Payload) > outboxBytes {
		return false
	}
	e.Payload = append(e.Payload, p.Payload...)
	f.bytes += len(p.Payload)
	return true
}

// noteHeld lets others join p, which was put last, or none on its topic if p must go alone:
// order is kept on each; f.mu is held.
func (f *Queue) noteHeld(p *Packet) {
	switch h := &f.hold; {
	case h.holders == 0:
	case !p.Joins:
		delete(h.joins, p.Topic)
	default:
		if h.joins == nil {
			h.joins = map[string]uint64{}
		}
		h.joins[p.Topic] = p.place
	}
}

// held reports whether the next packet waits; f.mu is held.
func (f *Queue) held() bool {
	next := f.queue.front()
	return f.hold.holders > 0 && next != nil && next.place > f.hold.free
}
