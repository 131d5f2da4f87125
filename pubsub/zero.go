package pubsub

import (
	"fmt"
	"sync"
)

// unmade is the error of using a value that did not come from its constructor, most often
// the nil one that came with an error.
func unmade(what, constructor string) error {
	return fmt.Errorf("%w: this %s is not from %s: look at the error that %s returned", ErrClosed, what, constructor, constructor)
}

var never struct {
	once   sync.Once
	joined *Participant
}

// neverJoined is a participant that has ended, in place of one that is not from Join.
func neverJoined() *Participant {
	never.once.Do(func() {
		p, _ := newParticipant("127.0.0.1", "none", nil) // the name and the URL are good
		p.id, p.label, p.incarnation = "", "", 0
		p.end(unmade("Participant", "Join"))
		p.awaitEnd()
		never.joined = p
	})
	return never.joined
}

func (p *Participant) orEnded() *Participant {
	if p == nil || p.ctx == nil {
		return neverJoined()
	}
	return p
}

// made is the error of a topic that is not from NewTopic.
func (t *Topic[T]) made() error {
	if t == nil || t.p == nil {
		return unmade("Topic", "NewTopic")
	}
	return nil
}

func (w *Writer[T]) made() error {
	if w == nil || w.ep == nil {
		return unmade("Writer", "NewWriter")
	}
	return nil
}

func (r *Reader[T]) made() error {
	if r == nil || r.ep == nil {
		return unmade("Reader", "NewReader")
	}
	return nil
}

func (c *Plain) made() error {
	if c == nil || c.p == nil {
		return unmade("Plain", "ConnectPlain")
	}
	return nil
}

// only yields an error and nothing else.
func only[V any](err error) func(func(V, error) bool) {
	return func(yield func(V, error) bool) {
		var none V
		yield(none, err)
	}
}

// needHandler refuses a handler that would fail when the first message comes.
func needHandler(given bool) error {
	if given {
		return nil
	}
	return fmt.Errorf("%w: the handler is nil", ErrInvalid)
}
