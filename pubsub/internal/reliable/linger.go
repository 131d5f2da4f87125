package reliable

import (
	"context"
	"fmt"
	"time"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

// minLinger is the least time without an acknowledgement after which a Close
// without a deadline gives up.
const minLinger = time.Second

// Linger ends the writing and waits until all reliable readers have everything. The
// error says what they have not acknowledged when ctx ended, ended was closed, or when,
// without a deadline, nobody had acknowledged anything for a while.
func (s *Sender) Linger(ctx context.Context, ended <-chan struct{}) error {
	s.mu.Lock()
	s.closing = true
	patience := max(s.qos.MaxBlocking, minLinger)
	s.happened() // a Write that is blocked
	s.mu.Unlock()
	s.Last()
	still := time.NewTimer(0)
	defer still.Stop()
	_, bounded := ctx.Deadline()
	for least := uint64(0); ; {
		lag, change := s.lag()
		if lag == 0 {
			return nil
		}
		if !bounded && (least == 0 || lag < least) {
			still.Reset(patience)
		}
		least = lag
		var over <-chan time.Time
		if !bounded {
			over = still.C
		}
		select {
		case <-change:
		case <-over:
			return s.undelivered(failure.ErrTimeout)
		case <-ctx.Done():
			return s.undelivered(context.Cause(ctx))
		case <-ended:
			return s.undelivered(failure.ErrClosed)
		}
	}
}

// lag is how far the reliable readers together are behind; the channel is closed
// when that may have changed.
func (s *Sender) lag() (n uint64, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.reliable {
			n += s.seq - s.reached(r)
		}
	}
	return n, s.change.Next()
}

// undelivered returns nil if readers lack only what is not held any more.
func (s *Sender) undelivered(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	samples, readers, one := 0, 0, wire.GUID{}
	for g, r := range s.readers {
		lacks := 0
		for seq, h := range s.held {
			if r.reliable && seq > s.reached(r) && r.wants(h) {
				lacks++
			}
		}
		if lacks > 0 {
			readers++
		}
		if lacks > samples {
			samples, one = lacks, g
		}
	}
	if readers == 0 {
		return nil
	}
	others := ""
	if readers > 1 {
		others = fmt.Sprintf(", as the farthest behind of %d,", readers)
	}
	return fmt.Errorf("%w: the writer of topic %q was closed before reader %s%s had acknowledged its last %d samples: give Close more time, or look after the readers: %w",
		failure.ErrUndelivered, s.topic, one, others, samples, why)
}
