package reliable

import (
	"slices"

	"padme/pubsub/internal/wire"
)

// A Waiting is a write that waits for room in the history. Whatever may make room tries all that
// wait again, in the order in which they came: if they were woken to try themselves, the first to
// run would get the room, and some would wait for ever.
type Waiting struct {
	sender   *Sender
	key      string
	envelope wire.Envelope
	done     chan struct{} // closed when it is over
	err      error         // then
}

// Write is TryWrite, but for a write that may wait: with ErrFull it returns that write, which has
// taken over what the envelope refers to.
func (s *Sender) Write(key string, e *wire.Envelope) (*Waiting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.tryWrite(key, e)
	if err != ErrFull { //nolint:errorlint // it is never wrapped here
		s.serve()
		return nil, err
	}
	w := &Waiting{sender: s, key: key, envelope: *e, done: make(chan struct{})}
	s.line = append(s.line, w)
	return w, err
}

// Done is closed when the write is over.
func (w *Waiting) Done() <-chan struct{} { return w.done }

// Leave ends the waiting, and gives the envelope back. It reports whether the write was over, and
// its error.
func (w *Waiting) Leave() (over bool, e wire.Envelope, err error) {
	s := w.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.line, w)
	if i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	}
	return i < 0, w.envelope, w.err
}

// happened follows a change of acknowledgements or readers.
func (s *Sender) happened() {
	s.serve()
	s.change.Happened()
}

// serve tries all that wait. What one writes may make room for another, say of the same instance.
func (s *Sender) serve() {
	for again := len(s.line) > 0; again; {
		again = false
		s.line = slices.DeleteFunc(s.line, func(w *Waiting) bool {
			err := s.tryWrite(w.key, &w.envelope)
			if err == ErrFull { //nolint:errorlint // it is never wrapped here
				return false
			}
			w.err = err
			close(w.done)
			again = true
			return true
		})
	}
}
