package reliable

import (
	"cmp"
	"errors"
	"slices"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

// line has the writes that wait for room in the history, in the order in which they came. Whatever
// may make room tries them again in that order: if they were woken to try themselves, the first to
// run would get the room, and some would wait for ever.
type line struct {
	waiting []*Waiting
	came    uint64 // how many ever have
	ahead   int    // those that wait for room in the outgoing queue, before all others
}

// A Waiting is a write in line.
type Waiting struct {
	sender   *Sender
	number   uint64
	key      string
	envelope wire.Envelope
	ahead    bool
	done     chan struct{} // closed when it has left the line
	err      error         // then
}

// Write is TryWrite, but for a write that may wait: with ErrFull it returns that write, which has
// taken over what the envelope refers to.
func (s *Sender) Write(key string, e *wire.Envelope) (*Waiting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.ahead == 0 {
		if err := s.tryWrite(key, e); !errors.Is(err, ErrFull) {
			s.follow(err)
			return nil, err
		}
	}
	s.line.came++
	w := &Waiting{sender: s, number: s.line.came, key: key, envelope: *e}
	w.enter()
	return w, ErrFull
}

// Done is closed when the write has been made, or has failed.
func (w *Waiting) Done() <-chan struct{} { return w.done }

// Again tries a write that failed as the outgoing queue had no room, before all that came later. After
// ErrFull it waits as before.
func (w *Waiting) Again() error {
	s := w.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.tryWrite(w.key, &w.envelope)
	if w.err = err; errors.Is(err, ErrFull) {
		w.enter()
	}
	w.step(errors.Is(err, failure.ErrBacklog))
	s.serve()
	return err
}

// Err is why the write has left the line, once Done is closed: nil after a success.
func (w *Waiting) Err() error { return w.err }

// Leave ends the waiting, and gives the envelope back. It reports whether the write had left the
// line, and why.
func (w *Waiting) Leave() (over bool, e wire.Envelope, err error) {
	s := w.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.line.waiting, w)
	if i >= 0 {
		s.line.waiting = slices.Delete(s.line.waiting, i, i+1)
	}
	if w.ahead {
		w.step(false)
		s.serve()
	}
	return i < 0, w.envelope, w.err
}

// enter puts w where it belongs.
func (w *Waiting) enter() {
	l := &w.sender.line
	i, _ := slices.BinarySearchFunc(l.waiting, w, func(a, b *Waiting) int { return cmp.Compare(a.number, b.number) })
	l.waiting = slices.Insert(l.waiting, i, w)
	w.done = make(chan struct{})
}

// step says whether w waits for room in the outgoing queue: the others do not overtake it.
func (w *Waiting) step(ahead bool) {
	if w.ahead {
		w.sender.line.ahead--
	}
	if w.ahead = ahead; ahead {
		w.sender.line.ahead++
	}
}

// happened follows a change of acknowledgements or readers.
func (s *Sender) happened() {
	s.serve()
	s.change.Happened()
}

// follow is called after a write.
func (s *Sender) follow(err error) {
	if err == nil {
		s.serve()
	}
}

// serve tries those in line. What one writes may make room for one before it, if it is a change of
// state or forgets more than one sample.
func (s *Sender) serve() {
	l := &s.line
	wrote := false
	for i := 0; i < len(l.waiting) && (l.ahead == 0 || s.closing); {
		w, held := l.waiting[i], len(s.held)
		err := s.tryWrite(w.key, &w.envelope)
		if errors.Is(err, ErrFull) {
			i++
			continue
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		w.err = err
		close(w.done)
		w.step(errors.Is(err, failure.ErrBacklog))
		if err == nil && (w.envelope.Options.Status != wire.StatusData || len(s.held) <= held) {
			i = 0
		}
		wrote = wrote || err == nil
	}
	if wrote {
		s.out.Wake() // Tick may be under way, and not see what that makes due
	}
}
