package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/cmd/rescue-demo/internal/world"
	"padme/internal/wait"
)

const (
	starting = 15 * time.Second // bounds how long center and observer take to start
	ending   = 10 * time.Second // bounds how long they take to end
	settling = 2 * time.Second  // bounds how long the last events are waited for
)

// run plays the scenario, until its duration is over or ctx ends, and has tell say what it
// sums up to; the page is there until then, or if it stays until ctx ends.
// An error means that there is nothing to sum up or that it did not end well.
func run(ctx context.Context, cfg scenario.Config, web pageConfig, progress io.Writer, tell func(summary.Summary) error) (_ summary.Summary, err error) {
	start, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	served := func() {} // the last to go: by then the broker has sent pages how the run ended
	defer func() { served() }()
	var st *stage
	used := cfg // by the center
	if cfg.Chaos {
		if st, err = setUp(start, cfg); err != nil {
			return summary.Summary{}, err
		}
		defer func() { err = errors.Join(err, st.close()) }()
		used.Broker = st.url
	}
	if web.Addr != "" && cfg.Broker == "" && !cfg.Chaos {
		used.WebSocket = "127.0.0.1:0" // for the page, wherever else the broker listens
	}
	c, err := center.Start(start, used)
	if err != nil {
		return summary.Summary{}, err
	}
	defer func() { err = errors.Join(err, within(ctx, ending, c.Close)) }()
	o, err := observer.Start(start, c.URL(), cfg.FrequencyNames())
	if err != nil {
		return summary.Summary{}, err
	}
	o.Models(time.Now(), cfg.Models.String())
	fmt.Fprintf(progress, "broker at %s; to see what is published: %s\n", c.URL(), subscribeLine(c.URL()))
	pg, err := openPage(start, web, c, progress)
	if err != nil {
		return summary.Summary{}, errors.Join(err, within(ctx, ending, o.Close))
	}
	if pg != nil {
		served = pg.server.Close
		defer func() { err = errors.Join(err, within(ctx, ending, pg.p.Close)) }() // if the run did not begin
	}
	result := search(ctx, time.Now(), cfg, c, o, st, pg, progress)
	observed(ctx, &result, c, o)
	if st != nil {
		result.Chaos = st.sum(result.End)
	}
	s := summary.Of(result)
	if err := tell(s); err != nil {
		return s, err
	}
	if pg != nil && web.Stay && ctx.Err() == nil {
		fmt.Fprintf(progress, "\nthe page stays at %s until Ctrl-C\n", pg.server.URL())
		<-ctx.Done()
	}
	return s, nil
}

// observed adds to the result what center and observer know, and closes the observer.
func observed(ctx context.Context, result *summary.Run, c *center.Center, o *observer.Observer) {
	entries := 0
	for _, r := range result.Robots {
		entries += r.Entries
	}
	_ = within(ctx, settling, func(ctx context.Context) error { return o.Settle(ctx, entries) })
	result.Observed = o.Report(result.End)
	if err := within(ctx, ending, o.Close); err != nil {
		result.Failures = append(result.Failures, fmt.Errorf("observer: %w", err))
	}
	result.Frames, result.Messages = c.Frames(), c.Messages()
}

// within calls f with a deadline of its own: what cleans up goes on after ctx
// has ended.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return f(ctx)
}

// search lets the robots out, in a world that begins to move at start, and returns when they
// are back. In between it switches to fair, unless the models are fixed.
func search(ctx context.Context, start time.Time, cfg scenario.Config, c *center.Center, o *observer.Observer, st *stage, pg *page, progress io.Writer) (result summary.Run) {
	result = summary.Run{Config: cfg, Broker: c.URL(), Start: start, World: world.New(cfg)}
	searching, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	var crew *crew
	if st != nil {
		st.watched = pg != nil
		crew = st.launch(searching, o, result.Start)
	} else {
		crew = launch(searching, robot.Config{Scenario: cfg, URL: c.URL(), Start: result.Start, World: result.World, Watched: pg != nil})
	}
	display := newDisplay(cfg, result.Start, c, o, st, result.World, crew, progress)
	defer display.close()
	if pg != nil {
		operator := &operator{cfg: cfg, start: result.Start, crew: crew, center: c, observer: o, world: result.World, running: searching}
		defer func() {
			if operator.disturbed.Load() {
				result.Journal = crew.journal
			}
		}()
		if err := pg.begin(searching, source(operator, st), operator); err != nil && searching.Err() == nil {
			result.Failures = append(result.Failures, fmt.Errorf("page: %w", err))
		}
	}

	fair := make(chan error, 1)
	go func() {
		if cfg.Fixed {
			fair <- nil
			return
		}
		fair <- switchToFair(searching, cfg.SwitchAt, c)
	}()
	display.follow(crew.back)
	cancel() // if the robots came back on their own
	if pg != nil {
		if err := within(ctx, ending, pg.over); err != nil {
			result.Failures = append(result.Failures, fmt.Errorf("page: %w", err))
		}
	}
	result.Robots = crew.reports
	result.Interrupted = ctx.Err() != nil
	result.End = time.Now()
	for _, err := range []error{<-fair, c.Err()} {
		if err != nil {
			result.Failures = append(result.Failures, fmt.Errorf("center: %w", err))
		}
	}
	if st != nil && st.director.Err() != nil {
		result.Failures = append(result.Failures, fmt.Errorf("chaos: %w", st.director.Err()))
	}
	return result
}

// source is what the page is told of.
func source(o *operator, st *stage) telemetry.Source {
	return telemetry.Source{
		Config: o.cfg, Start: o.start, World: o.world, Observer: o.observer, Messages: o.center.Messages,
		Life: func(number int) (int, bool) { return o.crew.robots[number-1].lives() },
		Judge: func(now time.Time) (observer.Report, telemetry.Verdict) {
			v := telemetry.Verdict{Overlaps: o.observer.Progress().Overlaps.Total()}
			if v.Faults = st != nil || o.disturbed.Load(); o.disturbed.Load() {
				v.Overlaps = o.crew.journal.Overlaps().Total()
			}
			if st != nil {
				v.Overlaps = st.journal.Overlaps().Total() // as in display
				if acts := st.director.Acts(); len(acts) > 0 {
					v.Act = acts[len(acts)-1].String()
				}
			}
			return o.observer.Report(now), v
		},
	}
}

// switchToFair does so after the given time, unless ctx ends first.
func switchToFair(ctx context.Context, after time.Duration, c *center.Center) error {
	if !wait.Sleep(ctx, after) {
		return nil
	}
	if err := c.Fair(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// subscribeLine is what one types to watch the broker at url.
func subscribeLine(url string) string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(url, "mqtt://"))
	if err != nil {
		host, port = strings.TrimPrefix(url, "mqtt://"), "1883"
	}
	return fmt.Sprintf("mosquitto_sub -h %s -p %s -t '#' -v", host, port)
}
