package pubsub

import (
	"fmt"
	"time"
)

// Coalescing puts samples which one writer has written in a row into one MQTT
// message, a bundle: their envelopes, one after the other. While nothing is on the way
// to the broker a sample goes at once; while something is, samples gather in the
// outbox until all of that is acknowledged, a bundle is full, somebody else's message
// waits behind it, or the delay is over. Below the outbox nobody knows of it, and above
// it nobody but the readers, who take bundles apart.

const (
	// maxBundle bounds a bundle in bytes; a sample that does not fit goes alone.
	maxBundle = 32 << 10
	// maxCoalescing is well below the time between heartbeats, which ask readers for
	// acknowledgements of what may still gather.
	maxCoalescing = minBeat / 2
	// manyKeys is the key level of a bundle with samples of several instances. No
	// instance has it: see keyText.
	manyKeys = "="
	// maxBundles bounds the partitions of which a writer remembers a bundle: with a
	// pattern it is in all those that readers name.
	maxBundles = 1024
)

// WithCoalescing lets a writer gather small samples which are written in a row, and
// send them together: more samples a second for, under load, up to delay more latency.
// A sample is not held back when nothing is on the way to the broker. delay is above 0
// and at most 50 ms; 0 switches coalescing off, which is the default. Readers see no
// difference. Transient writers cannot have it, because the broker keeps messages and
// not samples. While a reader that does not understand it is matched, samples go alone.
// No sample gathers for longer than a quarter of the writer's Lifespan or Deadline.
func WithCoalescing(delay time.Duration) EndpointOption {
	return func(o *endpointOptions) { o.coalescing = delay }
}

// checkCoalescing refuses what a writer could not do.
func (o *endpointOptions) checkCoalescing() error {
	switch {
	case o.coalescing < 0 || o.coalescing > maxCoalescing:
		return fmt.Errorf("%w: coalescing for %v, give 0 to %v", ErrInvalid, o.coalescing, maxCoalescing)
	case o.coalescing > 0 && o.Durability == Transient:
		return fmt.Errorf("%w: a transient writer cannot coalesce: the broker keeps the last message of an instance, which must be one sample", ErrInvalid)
	}
	return nil
}

// gatherFor is how long a sample gathers at most: not for as long as it lives, nor
// until readers miss it.
func (o *endpointOptions) gatherFor() time.Duration {
	delay := o.coalescing
	for _, period := range []time.Duration{o.Lifespan, o.Deadline} {
		if period > 0 {
			delay = min(delay, period/4)
		}
	}
	return delay
}

// company is with whom a writer's samples may share a message.
type company uint8

const (
	alone        company = iota
	sameInstance         // a narrow reader subscribes to one instance
	anyInstance
)

// regroup follows the readers.
func (s *sender) regroup() {
	s.company = alone
	if s.coalesces {
		s.company = anyInstance
	}
	for _, r := range s.readers {
		switch {
		case !r.bundles:
			s.company = alone
			return
		case r.instance != "":
			s.company = min(s.company, sameInstance)
		}
	}
}

// bundle is what samples of one writer in one partition gather in.
type bundle struct {
	delay time.Duration
	mixed string // topic for samples of several instances
	place uint64 // of the packet that they were last put into
}

// join puts a sample into the packet that its bundle gathers in. It reports false if
// there is none or the sample does not fit; f.mu is held.
func (f *fifo) join(p *packet) bool {
	e := f.queue.at(p.bundle.place)
	if e == nil || !e.gathers {
		return false
	}
	if len(e.payload)+len(p.payload) > maxBundle || e.topic != p.topic && (e.mixed == "" || p.mixed == "") {
		e.gathers = false
		f.gathering--
		return false
	}
	if e.topic != p.topic {
		e.topic = p.mixed
	}
	if p.mixed == "" {
		e.mixed = ""
	}
	if !e.shared { // the payload so far belongs to the sample
		e.shared = true
		e.payload = append(make([]byte, 0, min(8*len(e.payload), maxBundle)), e.payload...)
	}
	e.payload = append(e.payload, p.payload...)
	return true
}

// gather lets further samples join p, which is about to be put; f.mu is held.
func (f *fifo) gather(p *packet) {
	due := time.Now().Add(p.bundle.delay)
	if f.gathering == 0 || due.Before(f.due) {
		f.due = due
	}
	f.gathering++
	p.gathers = true
	p.bundle.place = p.place
}

// waits reports whether what is in the queue may gather for longer, until f.due;
// f.mu is held.
func (f *fifo) waits() bool {
	return f.gathering > 0 && f.gathering == f.queue.len() && time.Now().Before(f.due)
}

// send ends the gathering of what was put so far.
func (f *fifo) send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = time.Time{}
	signal(f.wake)
}
