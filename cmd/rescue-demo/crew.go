package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
)

// crew is all robots of a run.
type crew struct {
	robots  []*actor
	reports []robot.Report // complete once back is closed
	back    chan struct{}  // closed when every robot has come back
	journal *observer.Journal

	mu   sync.Mutex
	told [][]func() *robot.Report // by robot, of each of its lives once it is over
}

// launch starts the robots, which come back when ctx ends. The config is that of
// each, but for its number and its life.
func launch(ctx context.Context, each robot.Config) *crew {
	n := each.Scenario.Robots
	c := &crew{reports: make([]robot.Report, n), back: make(chan struct{}), journal: observer.NewJournal(), told: make([][]func() *robot.Report, n)}
	var out sync.WaitGroup
	for i := range n {
		a := &actor{name: scenario.RobotName(i + 1), begin: func(number int) (life, error) {
			cfg := each
			cfg.Number, cfg.Patient = i+1, number > 1
			return c.begin(ctx, cfg, number)
		}}
		c.robots = append(c.robots, a)
		err := a.Start()
		out.Go(func() {
			err := errors.Join(err, a.outlast(ctx))
			c.reports[i] = c.report(i, err)
		})
	}
	go func() {
		out.Wait()
		close(c.back)
	}()
	return c
}

func (c *crew) begin(ctx context.Context, cfg robot.Config, number int) (life, error) {
	note := func(s robot.Sighting) {
		c.journal.Note(scenario.RobotName(cfg.Number), number, s.Frequency, s.Fence, s.At)
	}
	if !cfg.Scenario.Processes {
		if cfg.Watched {
			cfg.Journal = note
		}
		in := startInside(ctx, cfg)
		c.hear(cfg.Number, in.told)
		return in, nil
	}
	cfg.Changes = cfg.World.Changes()
	p, told, err := startRobot(ctx, cfg, note)
	if err != nil {
		return nil, err
	}
	c.hear(cfg.Number, told)
	return p, nil
}

func (c *crew) hear(number int, told func() *robot.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[number-1] = append(c.told[number-1], told)
}

// report is what a robot told of all its lives, which are over. A process that was
// killed has told nothing.
func (c *crew) report(i int, err error) robot.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := robot.Report{Robot: c.robots[i].name}
	silent := true
	for _, told := range c.told[i] {
		r := told()
		if silent = r == nil; silent {
			continue
		}
		sum.Add(*r)
	}
	_, dead := c.robots[i].lives()
	switch {
	case dead:
		sum.Error = ""
	case silent:
		sum.Error = errors.Join(errors.New("its process ended without a report"), err).Error()
	}
	return sum
}

// change changes the world for everybody.
func (c *crew) change(w *world.World, start time.Time, change world.Change) {
	change.At = time.Since(start)
	w.Apply(change)
	for _, a := range c.robots {
		a.tell(change)
	}
}
