package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals turns the first signal that asks the process to end into the end of a
// context, until somebody takes the signals over.
type signals struct {
	incoming chan os.Signal
	done     chan struct{}

	mu sync.Mutex
	to func(syscall.Signal)
}

// forwarded are the signals that a command under a lock gets instead of us. A
// signal which the caller ignores (nohup, a background job of sh) stays ignored.
func forwarded() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// watchSignals returns a context that a signal ends, with cause interrupted. The
// caller must stop the watching.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{
		incoming: make(chan os.Signal, 16),
		done:     make(chan struct{}),
		to:       func(sig syscall.Signal) { cancel(interrupted{sig}) },
	}
	signal.Notify(s.incoming, forwarded()...)
	go func() {
		defer close(s.done)
		for sig := range s.incoming {
			s.deliver(sig)
		}
		cancel(nil)
	}()
	return ctx, s
}

// deliver holds the mutex, so that after handTo the context is either ended
// already or never will be by a signal.
func (s *signals) deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig, ok := sig.(syscall.Signal); ok {
		s.to(sig)
	}
}

// handTo gives every further signal to f, which must not block, instead of
// ending the context.
func (s *signals) handTo(f func(syscall.Signal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = f
}

// stop gives the signals back to the system and ends the context. It waits for
// the goroutine that watches.
func (s *signals) stop() {
	signal.Stop(s.incoming)
	close(s.incoming)
	<-s.done
}
