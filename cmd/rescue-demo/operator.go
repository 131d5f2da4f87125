package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/control"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
	"padme/internal/wait"
)

const (
	brokerAway   = 5 * time.Second        // how long a broker that was stopped stays away
	centerAway   = 8 * time.Second        // and a center that was killed
	answerLeaves = 300 * time.Millisecond // how long the answer has before the broker stops
	modelsTake   = 5 * time.Second        // bounds a change of models
	maxDropped   = 500                    // survivors
)

// operator does what commands ask for. perform must not be called concurrently.
type operator struct {
	cfg      scenario.Config
	start    time.Time
	crew     *crew
	center   *center.Center
	observer *observer.Observer
	world    *world.World
	running  context.Context // of the run

	// disturbed says that what is published does not tell of every hold any more: a
	// participant was killed, or the broker stopped. The robots' journals do.
	disturbed atomic.Bool

	dropped int
	wg      sync.WaitGroup

	mu     sync.Mutex
	outage bool // the broker is stopped
}

// perform carries out a command or says why it does not. Nothing is done by half.
func (o *operator) perform(ctx context.Context, c control.Command) error {
	if o.cfg.Chaos {
		return errors.New("--chaos follows a plan of its own: start the demo without it")
	}
	if o.running.Err() != nil {
		return errors.New("the run is over")
	}
	switch c.Do {
	case control.Pause, control.Resume, control.Cut, control.Mend:
		return o.changeRobot(c)
	case control.Kill:
		return o.kill(c.Number())
	case control.Start:
		return o.startRobot(c.Number())
	case control.Drop:
		return o.drop(c)
	case control.Models:
		ctx, cancel := context.WithTimeout(ctx, modelsTake)
		defer cancel()
		return o.center.ChangeModels(ctx, c.Changed)
	case control.KillRoot:
		return o.killRoot()
	case control.StopBroker:
		return o.stopBroker()
	}
	return fmt.Errorf("%q is nothing that can be done", c.Do)
}

func (o *operator) changeRobot(c control.Command) error {
	n := c.Number()
	name := scenario.RobotName(n)
	change := world.Change{Robot: n}
	var done bool
	var is string
	switch c.Do {
	case control.Pause:
		change.Kind, done, is = world.Pause, o.world.Paused(n), "is paused already"
	case control.Resume:
		change.Kind, done, is = world.Resume, !o.world.Paused(n), "is not paused"
	case control.Cut:
		change.Kind, done, is = world.Cut, o.world.Failed(n), "has no radio already"
	default:
		change.Kind, done, is = world.Mend, !o.world.Failed(n), "has its radio"
	}
	if done {
		return fmt.Errorf("%s %s", name, is)
	}
	o.crew.change(o.world, o.start, change)
	return nil
}

func (o *operator) drop(c control.Command) error {
	if o.dropped >= maxDropped {
		return fmt.Errorf("%d survivors were dropped, which is enough", maxDropped)
	}
	o.dropped++
	o.crew.change(o.world, o.start, world.Change{Kind: world.Drop, Place: c.Place()})
	return nil
}

func (o *operator) kill(number int) error {
	a := o.crew.robots[number-1]
	if _, dead := a.lives(); dead {
		return fmt.Errorf("%s is dead already", a.name)
	}
	o.disturbed.Store(true)
	return a.Kill()
}

func (o *operator) startRobot(number int) error {
	a := o.crew.robots[number-1]
	if _, dead := a.lives(); !dead {
		return fmt.Errorf("%s lives", a.name)
	}
	return a.Start()
}

func (o *operator) killRoot() error {
	root := o.observer.Root()
	for i, a := range o.crew.robots {
		if a.name == root {
			return o.kill(i + 1)
		}
	}
	if root != scenario.Center || o.center.Dead() {
		return fmt.Errorf("the root %q is not there: wait for the next one", root)
	}
	o.disturbed.Store(true)
	o.center.Kill()
	o.wg.Go(func() {
		if wait.Sleep(o.running, centerAway) {
			// Without it the run goes on, and the next switch of models waits for it.
			_ = o.center.Return(o.running)
		}
	})
	return nil
}

// stopBroker has the broker stop once the answer is on its way, and start again.
func (o *operator) stopBroker() error {
	if o.cfg.Broker != "" {
		return center.ErrForeignBroker
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.outage {
		return errors.New("the broker is stopped already")
	}
	o.outage = true
	o.disturbed.Store(true)
	o.wg.Go(func() {
		wait.Sleep(o.running, answerLeaves)
		_ = within(o.running, ending, o.center.StopBroker)
		wait.Sleep(o.running, brokerAway)
		// Somebody may have taken its port; the run can only wait until it is free.
		for within(o.running, ending, o.center.StartBroker) != nil && wait.Sleep(o.running, time.Second) {
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.outage = false
	})
	return nil
}

// wait returns when everything that was begun has come to an end, which it does
// soon after the run.
func (o *operator) wait() { o.wg.Wait() }
