package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"padme/qosmutex/sim"
)

// outcome is what became of one run.
type outcome struct {
	contender
	result   *sim.Result // nil: it did not begin
	scenario sim.Scenario
	repeats  bool // static.OverLossyChannels
	ended    bool // it was not interrupted
	err      error
}

// simulation is one run that others may look at.
type simulation struct {
	now, total atomic.Int64  // simulated nanoseconds
	events     atomic.Uint64 // so far
}

// chunk is how many events the simulator runs before it is asked to stop or look up:
// few for a person, many for a processor, at any scale of simulated time.
const chunk = 1000

// simulate runs the scenario with c until its end or that of ctx.
func (s *simSpec) simulate(ctx context.Context, c contender, trace func(*sim.Record), seen *simulation) outcome {
	o := outcome{contender: c}
	if ctx.Err() != nil {
		return o
	}
	sc, err := s.build(&c)
	if err != nil {
		o.err = wrong(err)
		return o
	}
	sc.Trace = trace
	o.scenario = sc
	o = s.play(ctx, o, seen)
	if trace == nil && errors.Is(o.err, sim.ErrViolation) && ctx.Err() == nil {
		// What led to it is remembered only for a trace. The same run again has one.
		o.scenario.Trace = func(*sim.Record) {}
		o = s.play(ctx, o, seen)
	}
	return o
}

func (s *simSpec) play(ctx context.Context, o outcome, seen *simulation) outcome {
	algorithm, repeats := s.channels(&o.contender)
	o.repeats = repeats
	run, err := sim.New(algorithm, o.scenario)
	if err != nil {
		o.err = wrong(err)
		return o
	}
	o.err = nil
	s.plan(run, &o.scenario)
	end := o.scenario.Start + o.scenario.Duration
	seen.total.Store(int64(end))
	for !o.ended && o.err == nil && ctx.Err() == nil {
		o.ended, o.err = run.RunSome(end, chunk)
		seen.now.Store(int64(run.Now()))
		seen.events.Store(run.Events())
	}
	o.result = run.Result()
	if errors.Is(o.err, sim.ErrScenario) {
		o.err = wrong(o.err)
	}
	return o
}

// tellSpeed says how much the runs were together.
func tellSpeed(outcomes []outcome, took time.Duration) {
	events := uint64(0)
	for i := range outcomes {
		if r := outcomes[i].result; r != nil {
			events += r.Events
		}
	}
	fmt.Fprintf(os.Stderr, "pubsub-node: %d events in %.2fs, %.2f million a second\n", events, took.Seconds(), float64(events)/took.Seconds()/1e6)
}

// yieldTakes is how long a simulator may take to look up after an interruption.
const yieldTakes = 2 * time.Second

// errStuck is a run that did not stop when it was asked to: a step does not return.
var errStuck = errors.New("a step of the simulated algorithm does not return")

// simulateAll runs the scenario with each contender, and with so many seeds, on all
// processors; those of one contender follow each other in what it returns. A single run may
// have a trace. With errStuck it goes on.
func (s *simSpec) simulateAll(ctx context.Context, all []contender, seeds int, trace func(*sim.Record)) ([]outcome, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // little is kept: else the collector takes a tenth of the time
	}
	outcomes, seen := make([]outcome, len(all)*seeds), make([]simulation, len(all)*seeds)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		free := make(chan struct{}, runtime.GOMAXPROCS(0))
		for turn := range outcomes {
			c, k := inTurn(turn, len(all))
			i := c*seeds + k
			free <- struct{}{}
			wg.Go(func() {
				defer func() { <-free }()
				outcomes[i] = s.withSeed(k).simulate(ctx, all[c], trace, &seen[i])
			})
		}
		wg.Wait()
	}()
	stop := showSimulation(seen)
	defer stop()
	select {
	case <-done:
		return outcomes, nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return outcomes, nil
	case <-time.After(yieldTakes):
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), errStuck)
	}
}

// inTurn is the contender and the seed of a run: all run with one seed before any does with
// the next, so that an interrupted table has as many seeds as possible.
func inTurn(run, contenders int) (contender, seed int) { return run % contenders, run / contenders }

// showSimulation tells a person at a terminal how far the runs are, once they take
// longer than patience. The caller must call stop.
func showSimulation(seen []simulation) (stop func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		begun, shown := time.Now(), false
		ticker := time.NewTicker(patience)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				if shown {
					fmt.Fprint(os.Stderr, "\r\x1b[K")
				}
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "\rpubsub-node: %s\x1b[K", simulationLine(seen, time.Since(begun)))
				shown = true
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

// simulationLine says how far the runs are.
func simulationLine(seen []simulation, took time.Duration) string {
	var share float64
	var events uint64
	over := 0
	for i := range seen {
		now, total := seen[i].now.Load(), seen[i].total.Load()
		if total > 0 {
			share += float64(now) / float64(total) / float64(len(seen))
		}
		if total > 0 && now == total {
			over++
		}
		events += seen[i].events.Load()
	}
	line := fmt.Sprintf("%.1f %% simulated, %.2f million events per second", 100*share, float64(events)/took.Seconds()/1e6)
	if len(seen) > 1 {
		return fmt.Sprintf("%d of %d runs done, %s", over, len(seen), line)
	}
	return fmt.Sprintf("%s of %s, %s", roundSeconds(seen[0].now.Load()), roundSeconds(seen[0].total.Load()), line)
}

func roundSeconds(nanoseconds int64) time.Duration {
	return time.Duration(nanoseconds).Round(time.Second)
}
