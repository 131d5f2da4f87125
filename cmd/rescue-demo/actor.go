package main

import (
	"errors"
	"fmt"
	"sync"
)

// actor is a part of a run under chaos that one process after the other plays. It
// is a chaos.Actor.
type actor struct {
	name string
	// begin starts the process of the given life, counted from 1.
	begin func(life int) (*process, error)

	mu     sync.Mutex
	life   int
	now    *process // of the present life; nil before the first
	killed bool     // by Kill
}

func (a *actor) Name() string { return a.name }

// Start begins a new life.
func (a *actor) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.begin(a.life + 1)
	if err != nil {
		return err
	}
	a.life++
	a.now, a.killed = p, false
	return nil
}

// Kill ends the process without a warning and returns when it is gone.
func (a *actor) Kill() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killed = true
	select {
	case <-a.now.done:
		return fmt.Errorf("it had ended by itself: %w", errors.Join(errors.New("its process is gone"), a.now.err))
	default:
	}
	err := a.now.cmd.Process.Kill()
	<-a.now.done
	return err
}

// Stop puts the process to sleep in the middle of whatever it does.
func (a *actor) Stop() error { return a.suspend(true) }

// Continue lets a process go on that was stopped.
func (a *actor) Continue() error { return a.suspend(false) }

func (a *actor) suspend(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return suspend(a.now.cmd.Process, on)
}

// lives returns how often it was started and whether it was killed and not
// started again.
func (a *actor) lives() (life int, dead bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life, a.killed
}

// await waits until the present process has ended, as the end of its context has
// it do. The error tells of an end that neither this nor Kill explains. Nobody may
// start another life at the same time.
func (a *actor) await() error {
	if a.now == nil {
		return nil
	}
	<-a.now.done
	switch {
	case a.killed:
		return nil
	case a.now.unasked:
		return fmt.Errorf("%s ended by itself: %w", a.name, errors.Join(errors.New("its process is gone"), a.now.err))
	case a.now.err != nil:
		return fmt.Errorf("%s: %w", a.name, a.now.err)
	}
	return nil
}
