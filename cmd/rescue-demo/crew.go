package main

import (
	"context"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
)

// crew is all robots of a run.
type crew struct {
	reports []robot.Report // complete once back is closed
	back    chan struct{}  // closed when every robot has come back
}

// launch starts the robots. They come back when ctx ends.
func launch(ctx context.Context, cfg scenario.Config, url string, start time.Time) *crew {
	live := robot.Run
	if cfg.Processes {
		live = runProcess
	}
	c := &crew{reports: make([]robot.Report, cfg.Robots), back: make(chan struct{})}
	var out sync.WaitGroup
	for i := range c.reports {
		out.Go(func() {
			// The report repeats the error.
			c.reports[i], _ = live(ctx, robot.Config{Scenario: cfg, Number: i + 1, URL: url, Start: start})
		})
	}
	go func() {
		out.Wait()
		close(c.back)
	}()
	return c
}
