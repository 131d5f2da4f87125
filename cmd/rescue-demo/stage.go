package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/base"
	"padme/cmd/rescue-demo/internal/chaos"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/cmd/rescue-demo/internal/voter"
	"padme/cmd/rescue-demo/internal/world"
)

// stage is what a run under chaos needs in addition to center and observer: everything
// that is to be killed, as processes, and who kills it.
type stage struct {
	cfg     scenario.Config
	dir     string // of the data of broker and voters
	url     string
	journal *observer.Journal

	broker, base *actor
	voters       []*actor // keep who is the root
	robots       []*actor
	reports      []func() *robot.Report // of the last lives

	playing context.Context // of broker, voters and base
	stop    context.CancelFunc

	director *chaos.Director
	start    time.Time
	watched  bool // there is a page
}

// setUp starts the broker, the voters and the base.
func setUp(ctx context.Context, cfg scenario.Config) (_ *stage, err error) {
	dir, err := os.MkdirTemp("", "rescue-demo-")
	if err != nil {
		return nil, err
	}
	s := &stage{cfg: cfg, dir: dir, journal: observer.NewJournal()}
	// Not with ctx: they are needed for the goodbyes.
	s.playing, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.broker = &actor{name: brokerName, begin: func(int) (life, error) { return s.startBroker(ctx) }}
	s.base = &actor{name: scenario.Base, begin: func(int) (life, error) {
		return startProcess(s.playing, baseName, base.Config{Scenario: cfg, URL: s.url}, func([]byte) {})
	}}
	for _, name := range cfg.Voters() {
		s.voters = append(s.voters, &actor{name: name, begin: func(int) (life, error) {
			return startProcess(s.playing, voterName, voter.Config{URL: s.url, Name: name, Voters: cfg.Voters(), Dir: s.dir}, func([]byte) {})
		}})
	}
	for _, a := range s.standing() {
		if err := a.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", a.name, err), s.close())
		}
	}
	return s, nil
}

// standing are all but the robots, in the order in which they are started.
func (s *stage) standing() []*actor { return append(append([]*actor{s.broker}, s.voters...), s.base) }

// brokerConfig is what the process of a broker must know.
type brokerConfig struct{ Listen, DataDir string }

const brokerTakes = 10 * time.Second // bounds how long it takes to serve

// startBroker starts a broker's process and returns when it serves, always at the
// same address.
func (s *stage) startBroker(ctx context.Context) (*process, error) {
	cfg := brokerConfig{Listen: s.cfg.Listen, DataDir: filepath.Join(s.dir, "data")}
	if u, err := url.Parse(s.url); err == nil && s.url != "" {
		host, _, _ := net.SplitHostPort(s.cfg.Listen) // checked before
		cfg.Listen = net.JoinHostPort(host, u.Port())
	}
	serves := make(chan string, 1)
	p, err := startProcess(s.playing, brokerName, cfg, func(line []byte) {
		var where string
		if json.Unmarshal(line, &where) == nil {
			serves <- where
		}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerTakes)
	defer cancel()
	select {
	case where := <-serves:
		if s.url == "" { // later it is the same, and others read it
			s.url = where
		}
		return p, nil
	case <-p.done:
		return nil, p.err
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
		return nil, fmt.Errorf("it does not serve %s after %v", cfg.Listen, brokerTakes)
	}
}

func playBroker(ctx context.Context, cfg brokerConfig, _ <-chan world.Change, say func(any)) error {
	b, err := broker.Start(ctx, broker.Config{TCP: cfg.Listen, DataDir: cfg.DataDir})
	if err != nil {
		return err
	}
	say(b.URL())
	<-ctx.Done()
	return within(ctx, ending, b.Close)
}

func playBase(ctx context.Context, cfg base.Config, _ <-chan world.Change, _ func(any)) error {
	return base.Run(ctx, cfg)
}

func playVoter(ctx context.Context, cfg voter.Config, _ <-chan world.Change, _ func(any)) error {
	return voter.Run(ctx, cfg)
}

// launch starts the robots, which come back when ctx ends, and lets chaos loose on
// all.
func (s *stage) launch(ctx context.Context, o *observer.Observer, start time.Time) *crew {
	s.start = start
	s.reports = make([]func() *robot.Report, s.cfg.Robots)
	for i := range s.cfg.Robots {
		name := scenario.RobotName(i + 1)
		s.robots = append(s.robots, &actor{name: name, begin: func(number int) (_ life, err error) {
			var p *process
			cfg := robot.Config{Scenario: s.cfg, Number: i + 1, URL: s.url, Start: start, Watched: s.watched}
			p, s.reports[i], err = startRobot(ctx, cfg, func(n robot.Sighting) {
				s.journal.Note(name, number, n.Frequency, n.Fence, n.At)
			})
			return p, err
		}})
	}
	s.director = chaos.NewDirector(s.cast(o), start)
	c := &crew{robots: s.robots, reports: make([]robot.Report, s.cfg.Robots), back: make(chan struct{})}
	errs := make([]error, len(s.robots))
	for i, a := range s.robots {
		errs[i] = a.Start()
	}
	go func() {
		defer close(c.back)
		s.director.Run(ctx, chaos.Plan(chaos.Config{
			Seed: s.cfg.ChaosSeed, Begin: scenario.WarmUp, End: s.cfg.Duration - s.cfg.Calm(), TTL: scenario.Timing().TTL,
		}))
		for i, a := range s.robots {
			c.reports[i] = s.report(i, errors.Join(errs[i], a.await()))
		}
	}()
	return c
}

// report is what a robot told at the end, if it came back.
func (s *stage) report(i int, err error) robot.Report {
	r := robot.Report{Robot: s.robots[i].name}
	if told := s.reports[i]; told != nil && told() != nil {
		r = *told()
	} else if _, dead := s.robots[i].lives(); err == nil && !dead {
		err = errors.New("its process ended without a report")
	}
	if err != nil {
		r.Error = errors.Join(err, errors.New(r.Error)).Error()
	}
	return r
}

func (s *stage) cast(o *observer.Observer) chaos.Cast {
	cast := chaos.Cast{
		Broker: s.broker, Base: s.base, Root: o.Root,
		Wipe: func() error { return os.RemoveAll(filepath.Join(s.dir, "data")) },
		Holders: func() (all []string) {
			for _, f := range o.States() {
				all = append(all, f.Holder)
			}
			return all
		},
	}
	for _, v := range s.voters {
		cast.Voters = append(cast.Voters, v)
	}
	for _, r := range s.robots {
		cast.Robots = append(cast.Robots, r)
	}
	return cast
}

// sum reports what was done and how the robots fared until end.
func (s *stage) sum(end time.Time) *summary.Chaos {
	acts := s.director.Acts()
	c := summary.NewChaos(s.cfg.ChaosSeed, acts, s.journal)
	calm := s.start.Add(chaos.Calm(acts))
	for i, a := range s.robots {
		life, dead := a.lives()
		c.Robots = append(c.Robots, summary.Robot{
			Robot: a.name, Lives: life, Alive: !dead,
			Airtime:       s.journal.Airtime(a.name, life, s.start).Seconds(),
			AirtimeInCalm: s.journal.Airtime(a.name, life, calm).Seconds(),
			Contact:       s.contact(i+1, calm, end).Seconds(),
			Needed:        (s.cfg.Calm() * 3 / 4).Seconds(),
		})
	}
	return c
}

// contact returns for how long at most a robot was in radio contact without a
// break.
func (s *stage) contact(number int, from, to time.Time) (longest time.Duration) {
	const step = 50 * time.Millisecond
	world := s.cfg.Area()
	walk, now := world.Walk(number), time.Duration(0)
	for t := from; t.Before(to); t = t.Add(step) {
		now += step
		if world.Shadowed(walk.At(s.cfg.WorldTime(t.Sub(s.start)))) {
			now = 0
		}
		longest = max(longest, now)
	}
	return longest
}

// close ends base, voters and broker, and waits for them.
func (s *stage) close() error {
	s.stop()
	var ends sync.WaitGroup
	all := s.standing()
	errs := make([]error, len(all))
	for i, a := range all {
		ends.Go(func() { errs[i] = a.await() })
	}
	ends.Wait()
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
