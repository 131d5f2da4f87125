package qosmutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// maxServed bounds the topics that strangers can have created by naming them.
const maxServed = 1024

// Serve creates any lock topic that a participant asks for and that has no root:
// it opens the topic on p with Create and opts. Such a topic accepts any resource id
// unless somebody declares which it has. If the register of
// WithRegister remembers topics with members, of a process that ended before, it opens
// those at once: their members need not ask. It blocks until ctx or p ends, closes the
// topics, and returns nil after ctx and an error that wraps ErrClosed after p.
func Serve(ctx context.Context, p *pubsub.Participant, opts ...Option) error {
	opts = append([]Option{Create(), openByDefault}, opts...)
	o, err := optionsOf(opts)
	if err != nil {
		return err
	}
	s := &server{p: p, opts: opts, options: o, served: map[string]bool{}, others: map[string]bool{}, asked: make(chan string, 256)}
	stop, err := p.SubscribeRaw(ctx, []string{"lock", "+", "join", "+"}, s.heard)
	if err != nil {
		return endOfWatch(ctx, err)
	}
	defer stop()
	s.listens()
	defer p.Notify(func(up bool) {
		if up {
			s.listens()
		}
	})()
	var topics sync.WaitGroup
	defer topics.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, name := range s.inhabited() {
		topics.Go(func() { s.serve(ctx, name) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Done():
			return fmt.Errorf("%w: participant %q has ended: %w", ErrClosed, p.ID(), p.Err())
		case name := <-s.asked:
			topics.Go(func() { s.serve(ctx, name) })
		}
	}
}

type server struct {
	options
	p    *pubsub.Participant
	opts []Option

	mu     sync.Mutex
	served map[string]bool // being opened, or open
	others map[string]bool // somebody else is or may be the root of it
	since  time.Time       // it hears what is said to all
	asked  chan string
	// Of heard, which runs one at a time.
	decoder protocol.Decoder
	message protocol.Message
}

// inhabited marks the topics that had members when the last process with the register
// ended as served, and returns them.
func (s *server) inhabited() (names []string) {
	p, _ := s.register.(placed)
	if p == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range p.Inhabited() {
		name, ok := strings.CutPrefix(key, recordKey(s.p.Root(), ""))
		if ok && len(s.served) < maxServed && !s.served[name] {
			s.served[name] = true
			names = append(names, name)
		}
	}
	return names
}

// heard looks for participants that seek a root.
func (s *server) heard(m pubsub.RawMessage) {
	if m.Retained || len(m.Levels) != 4 || m.Levels[3] == s.p.ID() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := m.Levels[1]
	if s.served[name] {
		return
	}
	if err := s.decoder.Decode(m.Payload, &s.message); err != nil || s.message.From.ID != m.Levels[3] {
		return
	}
	if s.message.Kind == protocol.KindOffer && len(s.others) < maxServed {
		s.others[name] = true
	}
	if s.message.Kind != protocol.KindJoin {
		return
	}
	if len(s.served) >= maxServed {
		s.log.Warn("lock topic not created: too many", "lock", name, "limit", maxServed)
		return
	}
	select {
	case s.asked <- name:
		s.served[name] = true
	default: // it will ask again
	}
}

// listens notes that all that is said to everybody is heard from now on.
func (s *server) listens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
}

// alone reports whether a topic has no root but this participant: a root tells everybody
// that it is there when it begins, when it has a connection again, and each TTL, and none
// was heard of this topic. So there is no need to listen again before it is created.
func (s *server) alone(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.since) >= time.Duration(s.timing.TTL) && !s.others[name] && len(s.others) < maxServed
}

// listened says that whoever opens the topic has listened for a root of another register.
func listened(o *options) error {
	o.listened = true
	return nil
}

// serve keeps one topic open.
func (s *server) serve(ctx context.Context, name string) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.served, name)
		s.others[name] = true
	}()
	opts := s.opts
	if s.alone(name) {
		opts = append(slices.Clone(opts), listened)
	}
	t, err := Open(ctx, s.p, name, opts...)
	if err != nil {
		if !errors.Is(err, ErrCancelled) {
			s.log.Info("lock topic not opened", "lock", name, "error", err)
		}
		return
	}
	select {
	case <-ctx.Done():
	case <-t.Done():
	}
	_ = t.Close(context.WithoutCancel(ctx))
}
