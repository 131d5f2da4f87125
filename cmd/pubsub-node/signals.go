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

// notice has the signals watched, but for one which the caller ignores (nohup, a
// background job of sh): that stays ignored.
func (s *signals) notice(all ...os.Signal) {
	for _, sig := range all {
		if !signal.Ignored(sig) {
			signal.Notify(s.incoming, sig)
		}
	}
}

// watchSignals returns a context that a signal ends, with cause interrupted. The
// caller must stop the watching. SIGQUIT stays Go's: it prints what every goroutine does.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{
		incoming: make(chan os.Signal, 16),
		done:     make(chan struct{}),
		to:       func(sig syscall.Signal) { cancel(interrupted{sig}) },
	}
	s.notice(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
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
// ending the context. SIGQUIT is among them, for a command under a lock gets it instead of
// us.
func (s *signals) handTo(f func(syscall.Signal)) {
	s.notice(syscall.SIGQUIT)
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
