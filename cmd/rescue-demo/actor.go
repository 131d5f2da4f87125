package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"padme/cmd/rescue-demo/internal/world"
)

// life is one who plays a part: a process, or a robot inside this one.
type life interface {
	ended() <-chan struct{}         // closed when it is over
	end() (unasked bool, err error) // how, from then on
	kill() error                    // without a warning; it may not be over yet
	suspend(on bool) error
	tell(world.Change)
}

// actor is a part of a run that one life after the other plays. It is a
// chaos.Actor.
type actor struct {
	name string
	// begin begins the given life, counted from 1.
	begin func(number int) (life, error)

	mu      sync.Mutex
	number  int
	now     life          // nil before the first
	killed  bool          // by Kill
	closed  bool          // there will be no other life
	started chan struct{} // closed by the next Start; nil: nobody waits for it
}

func (a *actor) Name() string { return a.name }

// Start begins a new life.
func (a *actor) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the run is over")
	}
	next, err := a.begin(a.number + 1)
	if err != nil {
		return err
	}
	a.number++
	a.now, a.killed = next, false
	if a.started != nil {
		close(a.started)
		a.started = nil
	}
	return nil
}

// Kill ends the life without a warning and returns when it is gone.
func (a *actor) Kill() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == nil {
		return errors.New("it was never started")
	}
	a.killed = true
	select {
	case <-a.now.ended():
		_, err := a.now.end()
		return fmt.Errorf("it had ended by itself: %w", errors.Join(errors.New("its process is gone"), err))
	default:
	}
	err := a.now.kill()
	<-a.now.ended()
	return err
}

// tell has whoever plays the part hear of a change.
func (a *actor) tell(c world.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now != nil {
		a.now.tell(c)
	}
}

// Stop puts the process to sleep in the middle of whatever it does.
func (a *actor) Stop() error { return a.suspend(true) }

// Continue lets a process go on that was stopped.
func (a *actor) Continue() error { return a.suspend(false) }

func (a *actor) suspend(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.suspend(on)
}

// lives returns how often it was started and whether it was killed and not
// started again.
func (a *actor) lives() (number int, dead bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.number, a.killed
}

// outlast waits until the last life has ended: a killed one may be followed by
// another as long as ctx lasts. There is none afterwards. The error is await's.
func (a *actor) outlast(ctx context.Context) error {
	for {
		next, ok := a.mourn()
		if !ok {
			return a.await()
		}
		select {
		case <-next:
		case <-ctx.Done():
			a.mu.Lock()
			a.closed = a.started != nil // else it was started a moment ago
			a.mu.Unlock()
		}
	}
}

// mourn waits for the end of the present life. ok: it was killed, and next is closed
// when there is another.
func (a *actor) mourn() (next <-chan struct{}, ok bool) {
	a.mu.Lock()
	now := a.now
	a.mu.Unlock()
	if now != nil {
		<-now.ended()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == now && (now == nil || !a.killed || a.closed) {
		a.closed = true
		return nil, false
	}
	if a.now != now {
		return closedChan, true
	}
	if a.started == nil {
		a.started = make(chan struct{})
	}
	return a.started, true
}

// closedChan has nobody wait.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// await waits until the present process has ended, as the end of its context has
// it do. The error tells of an end that neither this nor Kill explains. Nobody may
// start another life at the same time.
func (a *actor) await() error {
	if a.now == nil {
		return nil
	}
	<-a.now.ended()
	unasked, err := a.now.end()
	switch {
	case a.killed:
		return nil
	case unasked:
		return fmt.Errorf("%s ended by itself: %w", a.name, errors.Join(errors.New("its process is gone"), err))
	case err != nil:
		return fmt.Errorf("%s: %w", a.name, err)
	}
	return nil
}
