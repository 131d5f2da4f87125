package connection

import (
	"time"

	"padme/internal/wait"
)

// MaxBundle bounds a bundle in bytes; a sample that does not fit goes alone.
const MaxBundle = 32 << 10

// Bundle is what packets of one origin gather in, to go out as one.
type Bundle struct {
	Delay time.Duration // the longest that one gathers
	Mixed string        // topic of packets that were for several
	place uint64        // of the packet that they were last put into
}

// join puts a sample into the packet that its bundle gathers in. It reports false if
// there is none or the sample does not fit; f.mu is held.
func (f *Queue) join(p *Packet) bool {
	e := f.queue.at(p.Bundle.place)
	if e == nil || !e.gathers {
		return false
	}
	if len(e.Payload)+len(p.Payload) > MaxBundle || e.Topic != p.Topic && (e.Mixed == "" || p.Mixed == "") {
		e.gathers = false
		f.gathering--
		return false
	}
	if e.Topic != p.Topic {
		e.Topic = p.Mixed
	}
	if p.Mixed == "" {
		e.Mixed = ""
	}
	if !e.shared { // the payload so far belongs to the sample
		e.shared = true
		e.Payload = append(make([]byte, 0, min(8*len(e.Payload), MaxBundle)), e.Payload...)
	}
	e.Payload = append(e.Payload, p.Payload...)
	return true
}

// gather lets further samples join p, which is about to be put; f.mu is held.
func (f *Queue) gather(p *Packet) {
	due := time.Now().Add(p.Bundle.Delay)
	if f.gathering == 0 || due.Before(f.due) {
		f.due = due
	}
	f.gathering++
	p.gathers = true
	p.Bundle.place = p.place
}

// waits reports whether what is in the queue may gather for longer, until f.due;
// f.mu is held.
func (f *Queue) waits() bool {
	return f.gathering > 0 && f.gathering == f.queue.len() && time.Now().Before(f.due)
}

// Send ends the gathering of what was put so far.
func (f *Queue) Send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = time.Time{}
	wait.Signal(f.wake)
}
