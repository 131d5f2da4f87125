package pubsub

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// slowHandler is for how long a handler may run until that is logged.
const slowHandler = time.Second

// slowness watches the handlers of one connection, which must not block: nothing else is read
// meanwhile, heartbeats neither, and whoever waits in a handler for something that must be read
// waits for ever.
type slowness struct {
	log   *slog.Logger
	begun atomic.Int64 // the call that runs, in nanoseconds; 0 for none
	armed atomic.Bool  // look will be called
}

// watched returns receive, with a warning of calls that take long.
func watched(log *slog.Logger, receive func(topic string, payload []byte, retained bool)) func(string, []byte, bool) {
	s := &slowness{log: log}
	return func(topic string, payload []byte, retained bool) {
		begun := time.Now()
		s.begun.Store(begun.UnixNano())
		s.arm(slowHandler)
		receive(topic, payload, retained)
		s.begun.Store(0)
		if took := time.Since(begun); took >= slowHandler {
			log.Warn("a handler has returned late", "topic", topic, "took", took)
		}
	}
}

// arm has look called, unless it will be: at most once a second, whatever comes.
func (s *slowness) arm(after time.Duration) {
	if !s.armed.Load() && !s.armed.Swap(true) {
		time.AfterFunc(after, s.look)
	}
}

func (s *slowness) look() {
	s.armed.Store(false)
	begun := s.begun.Load()
	if begun == 0 {
		return // the next call arms again
	}
	if ran := time.Since(time.Unix(0, begun)); ran < slowHandler {
		s.arm(slowHandler - ran)
		return
	}
	s.log.Warn("a handler blocks: nothing else is read on its connection, and locks may be lost; have handlers return at once, and do what takes long in a goroutine of its own",
		"for", slowHandler)
}
