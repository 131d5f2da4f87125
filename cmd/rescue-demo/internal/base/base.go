// Package base is the base station of a run under chaos: the participant that
// creates the lock topic of the frequencies and is its first root, and does nothing
// else, so that its death costs nothing but the root.
package base

import (
	"context"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"
)

// Config is what a base must know. It crosses processes as JSON.
type Config struct {
	Scenario scenario.Config
	URL      string // of the broker
}

const leaving = 2 * time.Second // bounds the goodbye

// Run creates the lock topic, or joins it where another one is the root, and stays until
// ctx ends. It waits for a broker that is not there. An error says that the topic ended
// before.
func Run(ctx context.Context, cfg Config) error {
	if err := run(ctx, cfg); ctx.Err() == nil {
		return err
	}
	return nil // it was told to end, whatever it was waiting for
}

func run(ctx context.Context, cfg Config) error {
	p, err := scenario.Join(ctx, cfg.Scenario.Chaos, cfg.URL, scenario.Base)
	if err != nil {
		return err
	}
	defer within(ctx, p.Close)
	r, err := cfg.Scenario.Register(p)
	if err != nil {
		return err
	}
	defer r.Close()
	t, err := qosmutex.Open(ctx, p, scenario.LockTopic,
		qosmutex.Create(),
		qosmutex.WithRegister(r),
		qosmutex.WithResources(cfg.Scenario.FrequencyNames()...),
		qosmutex.WithModels(cfg.Scenario.Models),
		qosmutex.WithTiming(scenario.Timing()),
		qosmutex.WithNodePriority(scenario.RootPriority))
	if err != nil {
		return err
	}
	defer within(ctx, t.Close)
	select {
	case <-ctx.Done():
		return nil
	case <-t.Done():
		return t.Err()
	}
}

func within(ctx context.Context, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	_ = end(ctx)
}
