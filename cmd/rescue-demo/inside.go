package main

import (
	"context"
	"errors"

	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/world"
)

// inside is the life of a robot in this process.
type inside struct {
	death   chan struct{} // closed by kill, at most once
	done    chan struct{}
	report  robot.Report // after done
	unasked bool
}

// startInside lets a robot live until ctx ends.
func startInside(ctx context.Context, cfg robot.Config) *inside {
	in := &inside{death: make(chan struct{}), done: make(chan struct{})}
	cfg.Kill = in.death
	go func() {
		defer close(in.done)
		in.report, _ = robot.Run(ctx, cfg) // the report repeats the error
		in.unasked = ctx.Err() == nil
	}()
	return in
}

func (in *inside) ended() <-chan struct{} { return in.done }

// end has nothing to add to the report.
func (in *inside) end() (unasked bool, err error) { return in.unasked, nil }

func (in *inside) kill() error {
	close(in.death)
	return nil
}

func (in *inside) suspend(bool) error { return errors.ErrUnsupported }

// tell does nothing: the robot lives in the world that was changed.
func (in *inside) tell(world.Change) {}

// told is what the robot reported, from when it is over.
func (in *inside) told() *robot.Report { return &in.report }
