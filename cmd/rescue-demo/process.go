package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/robot"
	"padme/cmd/rescue-demo/internal/world"

	"github.com/spf13/cobra"
)

// patience is how long a process may take to end when it is told to.
const patience = 10 * time.Second

// process is this program again, in a part of its own. It is told its
// configuration on standard input, and what changes in the world, ends when that is
// closed, and says what it has to say on standard output, one JSON value a line.
type process struct {
	cmd       *exec.Cmd
	stdin     *json.Encoder
	complaint bytes.Buffer
	done      chan struct{} // closed when it is gone and all it said was heard
	// Of how it ended, after done.
	err     error
	unasked bool // it was not told to
}

// startProcess starts the part that the hidden sub-command role plays. The process
// is told to end when ctx does. Lines go to hear, one at a time.
func startProcess(ctx context.Context, role string, config any, hear func(line []byte)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, role), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &lines{each: hear}, &p.complaint
	p.cmd.SysProcAttr = dieWithParent()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Cancel = stdin.Close
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = json.NewEncoder(stdin)
	// What is wrong with writing shows in how the process ends.
	_ = p.stdin.Encode(config)
	go func() {
		defer close(p.done)
		err := p.cmd.Wait()
		p.unasked = ctx.Err() == nil
		if err != nil && !errors.Is(err, ctx.Err()) {
			p.err = errors.Join(err, errors.New(strings.TrimSpace(p.complaint.String())))
		}
	}()
	return p, nil
}

func (p *process) ended() <-chan struct{} { return p.done }

func (p *process) end() (unasked bool, err error) { return p.unasked, p.err }

func (p *process) kill() error { return p.cmd.Process.Kill() }

func (p *process) suspend(on bool) error { return suspend(p.cmd.Process, on) }

// tell has the process hear of a change. One that has ended does not.
func (p *process) tell(c world.Change) { _ = p.stdin.Encode(c) }

// lines cuts what is written into lines. The end of a line that never comes, as
// when the writer is killed, is dropped.
type lines struct {
	each func([]byte)
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		l.each(line)
		l.rest = append(l.rest[:0], rest...)
	}
}

// Names of the hidden sub-commands.
const (
	robotName  = "robot"
	baseName   = "base"
	brokerName = "broker"
	voterName  = "voter"
)

// said is a line of a robot's process.
type said struct {
	Sighting *robot.Sighting `json:",omitempty"`
	Report   *robot.Report   `json:",omitempty"` // the last line
}

// startRobot starts a robot's process. What it notes goes to note; reports, from
// when the process is done, what it reported, or nil.
func startRobot(ctx context.Context, cfg robot.Config, note func(robot.Sighting)) (p *process, report func() *robot.Report, err error) {
	var told *robot.Report
	p, err = startProcess(ctx, robotName, cfg, func(line []byte) {
		var s said
		if json.Unmarshal(line, &s) != nil {
			return // which shows as a missing report
		}
		if s.Sighting != nil {
			note(*s.Sighting)
		}
		if s.Report != nil {
			told = s.Report
		}
	})
	return p, func() *robot.Report { return told }, err
}

// partCommand is the other end of startProcess: a hidden sub-command that plays a
// part, as configured by standard input, until that is closed. What comes after the
// configuration goes to changes.
func partCommand[Config any](stdin io.Reader, role string, play func(ctx context.Context, cfg Config, changes <-chan world.Change, say func(any)) error) *cobra.Command {
	return &cobra.Command{
		Use:    role,
		Short:  "Play one part, as told on standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C reaches the whole process group; it is for the parent to say
			// when to end.
			signal.Ignore(os.Interrupt)
			var cfg Config
			in := json.NewDecoder(stdin)
			if err := in.Decode(&cfg); err != nil {
				return fmt.Errorf("no configuration on standard input, which is how --processes starts it: %w", err)
			}
			ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer cancel()
			changes := make(chan world.Change)
			go func() {
				defer cancel()
				for {
					var c world.Change
					if in.Decode(&c) != nil {
						return
					}
					select {
					case changes <- c:
					case <-ctx.Done():
					}
				}
			}()
			out := json.NewEncoder(cmd.OutOrStdout())
			return play(ctx, cfg, changes, func(v any) { _ = out.Encode(v) })
		},
	}
}

func playRobot(ctx context.Context, cfg robot.Config, changes <-chan world.Change, say func(any)) error {
	if err := cfg.Scenario.Validate(); err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	if cfg.Scenario.Chaos || cfg.Watched {
		cfg.Journal = func(s robot.Sighting) { say(said{Sighting: &s}) }
	}
	cfg.World = world.New(cfg.Scenario, cfg.Changes...)
	ctx, cancel := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	hearing.Go(func() {
		for {
			select {
			case c := <-changes:
				cfg.World.Apply(c)
			case <-ctx.Done():
				return
			}
		}
	})
	report, _ := robot.Run(ctx, cfg) // the report repeats the error
	say(said{Report: &report})
	return nil
}
