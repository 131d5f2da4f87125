package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"padme/cmd/internal/flags"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/qosmutex"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // an error, overlaps, no entry at all, overtaken beyond the bound, or not everybody served after chaos
	exitUsage       = 2   // a wrong command line
	exitInterrupted = 130 // as shells report a death by SIGINT
)

// openDuration is how long a run lasts by default that somebody looks at: enough for the tour of the page.
const openDuration = 5 * time.Minute

// errInterrupted ends a run that was cut short and summed up.
var errInterrupted = errors.New("rescue-demo: interrupted")

// errVerdict says that the run went through and showed that something is wrong.
var errVerdict = errors.New("rescue-demo: failed")

// usageError says what is wrong with the command line.
type usageError struct{ error }

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newCommand(stdin)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, errVerdict) && !errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "rescue-demo: interrupted")
		return exitInterrupted
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "rescue-demo:", strings.TrimPrefix(err.Error(), "rescue-demo: "))
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	return exitFailed
}

// wrong makes an error one of the command line.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// complete adds to cfg what the flags say, and refuses what cannot be.
func complete(cmd *cobra.Command, cfg *scenario.Config, models string) error {
	m, err := qosmutex.ParseModels(models)
	if err != nil {
		return fmt.Errorf("--models %q: %w", models, err)
	}
	cfg.Models = m
	if open, _ := cmd.Flags().GetBool("open"); open && !cfg.Chaos && !cmd.Flags().Changed("duration") {
		cfg.Duration = openDuration
	}
	if cfg.Chaos && !cmd.Flags().Changed("models") {
		cfg.Models = scenario.ChaosModels
	}
	switch {
	case cmd.Flags().Changed("switch-at") && cfg.SwitchAt <= 0:
		return fmt.Errorf("--switch-at %v: give a time after the start", cfg.SwitchAt)
	case cmd.Flags().Changed("chaos-seed") && !cfg.Chaos:
		return errors.New("--chaos-seed without --chaos: give both")
	case cfg.Chaos && !canSuspend:
		return errors.New("--chaos: processes cannot be stopped and continued on this system: leave it out")
	}
	return cfg.Validate()
}

func newCommand(stdin io.Reader) *cobra.Command {
	cfg := scenario.Default()
	models, asJSON := cfg.Models.String(), false
	var twice twice
	web := pageConfig{Addr: pageAddress}
	c := &cobra.Command{
		Use:   "rescue-demo",
		Short: "Search and rescue: robots share a few radio frequencies by importance",
		Long: `A disaster area with survivors, ruins which block radio, and robots which wander
through it, each a participant with an MQTT connection of its own. A robot sees
survivors within 50 yards; the more it sees, the more important it is, at once
and also while it waits. It locks one of the few free frequencies and streams
pictures over it to the rescue center. At a given time the center switches from
Level (the most important first) to Fair (everybody in turn). Ruins cut robots
off; who stays cut off while holding a frequency loses it to another.

A page shows all of this in a browser, and lets you interfere: pause a robot, kill
it or cut its radio, drop survivors, switch the models, kill the root, stop the
broker. The page is an MQTT client; what it shows any other can see as well. It is
served to this machine; --web :8146 serves it to others, without the controls.

With --chaos, robots are killed and started again or stopped for longer than
their session lasts, the root of the lock is killed, and so are, one at a time, the
three voters that keep who is the root, and the broker, once with its data and once
without; these are started again. Another robot becomes the root; of the first root
nobody hears again. The run ends with a calm in which everybody who lives must be
served.

With --compare, the scenario runs twice at the same time, each with a lock topic and a
root of its own: the robots walk the same ways and see the same survivors, and only
the models differ. They stay as they are. The page shows both timelines and what each
class of robots waited and got; it has no controls.

At the end a summary tells who got how much, how long the longest wait under Fair
was, how many later requests overtook one, and how often the lock was broken, as
counted by an observer that knows nothing but what was published and, under chaos,
what each robot noted of its own holds while they passed Check. The exit code is 1
if the lock was broken, if nobody ever got a frequency, if under Fair somebody was
overtaken more often than the lock promises, or if somebody was not served after
chaos; 2 if the command line is wrong; 130 after Ctrl-C.`,
		Example: `  rescue-demo --open                                  # and look at it in a browser
  rescue-demo --duration 10m --switch-at 1m --web 127.0.0.1:9000
  rescue-demo --web off
  rescue-demo --duration 20s --json
  rescue-demo --robots 20 --frequencies 3 --speed 2 --models level-forward-forward-forward
  rescue-demo --processes --listen 127.0.0.1:1883     # and watch with mosquitto_sub
  rescue-demo --processes --chaos                     # kill robots, root and broker
  rescue-demo --compare fair --record level.padme,fair.padme
  rescue-demo --replay level.padme,fair.padme --open
  rescue-demo --broker mqtt://localhost:1883 --switch-at 10s`,
		Args:          func(cmd *cobra.Command, args []string) error { return wrong(cobra.NoArgs(cmd, args)) },
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE:       func(cmd *cobra.Command, _ []string) error { return wrong(cmd.ValidateFlagGroups()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wrong(complete(cmd, &cfg, models)); err != nil {
				return err
			}
			if err := wrong(web.settle(cmd.Flags().Changed("web"), asJSON)); err != nil {
				return err
			}
			if err := wrong(twice.check(&cfg, cmd.Flags())); err != nil {
				return err
			}
			web.Stay = web.Stay || web.Open && !cmd.Flags().Changed("stay")
			switch {
			case twice.Replay != nil:
				return replay(cmd.Context(), web, twice.Replay, cmd.OutOrStdout())
			case twice.Compare != "":
				return showCompared(cmd, sideConfigs(cfg, twice.models), web, twice.Record, asJSON)
			}
			return show(cmd, cfg, web, asJSON)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong(flags.Plain(err)) })
	f := c.Flags()
	f.SortFlags = false
	flags.DurationVar(f, &cfg.Duration, "duration", "", cfg.Duration, "how long the robots search (5m with --open, but without --chaos)")
	f.IntVar(&cfg.Robots, "robots", cfg.Robots, "number of robots")
	f.IntVar(&cfg.Frequencies, "frequencies", cfg.Frequencies, "number of free frequencies")
	f.IntVar(&cfg.Survivors, "survivors", cfg.Survivors, "number of survivors")
	f.StringVar(&models, "models", models, "models of the lock before the switch: level-{forward|replace}-{forward|use}-{forward|use|retain|direct}")
	flags.DurationVar(f, &cfg.SwitchAt, "switch-at", "", 0, "when the center switches to fair (default half of the duration)")
	f.Float64Var(&cfg.Speed, "speed", cfg.Speed, "pace of the simulated world: how fast robots go and transmit")
	flags.DurationVar(f, &cfg.Transmission, "transmission", "", cfg.Transmission, "time on the air per entry, in the simulated world")
	f.Float64Var(&cfg.Width, "width", cfg.Width, "width of the area in yards")
	f.Float64Var(&cfg.Height, "height", cfg.Height, "height of the area in yards")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "makes another area and other walks")
	f.BoolVar(&cfg.Processes, "processes", false, "run every robot as a process of its own")
	f.BoolVar(&cfg.Chaos, "chaos", false, "kill and stop robots, and kill the root and the broker; needs --processes")
	f.Uint64Var(&cfg.ChaosSeed, "chaos-seed", cfg.ChaosSeed, "makes other faults at other times")
	f.StringVar(&cfg.Broker, "broker", "", "URL of a running MQTT broker, mqtt://host:port (default: an embedded one)")
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "where the embedded broker listens; port 0 takes a free one")
	f.StringVar(&web.Addr, "web", web.Addr, "where the page is served, host:port; port 0 takes a free one, off serves none (default with --json)")
	f.BoolVar(&web.Open, "open", false, "open the page in a browser")
	f.BoolVar(&web.Stay, "stay", false, "keep the page after the end, until Ctrl-C (default with --open)")
	f.StringVar(&twice.Compare, "compare", "", "run the same under these models, too, and compare; fair is enough")
	f.StringSliceVar(&twice.Record, "record", nil, "with --compare: write two recordings, FILE,FILE")
	f.StringSliceVar(&twice.Replay, "replay", nil, "run nothing: show two recordings side by side, FILE,FILE")
	f.BoolVar(&asJSON, "json", false, "print the summary as one JSON object, and nothing else, to standard output")
	c.MarkFlagsMutuallyExclusive("broker", "listen")
	c.MarkFlagsMutuallyExclusive("replay", "compare")
	c.MarkFlagsMutuallyExclusive("replay", "record")
	c.MarkFlagsMutuallyExclusive("compare", "switch-at")
	c.MarkFlagsMutuallyExclusive("compare", "chaos")
	c.CompletionOptions.DisableDefaultCmd = true
	c.SetHelpCommand(&cobra.Command{Hidden: true})
	c.AddCommand(partCommand(stdin, robotName, playRobot), partCommand(stdin, baseName, playBase), partCommand(stdin, brokerName, playBroker), partCommand(stdin, voterName, playVoter))
	return c
}

// show runs the scenario and prints its summary.
func show(cmd *cobra.Command, cfg scenario.Config, web pageConfig, asJSON bool) error {
	progress := cmd.OutOrStdout()
	if asJSON {
		progress = cmd.ErrOrStderr()
	}
	s, err := run(cmd.Context(), cfg, web, progress, func(s summary.Summary) error {
		if asJSON {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(s)
		}
		fmt.Fprintln(progress)
		return s.Write(progress)
	})
	if err != nil {
		return err
	}
	if err := verdict(s); err != nil || !s.Interrupted {
		return err
	}
	return errInterrupted
}

// verdict is the error of a run that must not be taken for a success.
func verdict(s summary.Summary) error {
	switch {
	case s.Overlaps > 0:
		return fmt.Errorf("%w: %d overlaps: the lock was broken", errVerdict, s.Overlaps)
	case s.Fair.Err() != nil:
		return fmt.Errorf("%w: %w", errVerdict, s.Fair.Err())
	case s.Entries == 0 && !s.Interrupted:
		return fmt.Errorf("%w: no robot got a frequency: try a longer --duration", errVerdict)
	case s.Chaos != nil && !s.Interrupted:
		if err := s.Chaos.Err(); err != nil {
			return fmt.Errorf("%w: %w", errVerdict, err)
		}
		if len(s.Failures) > 0 {
			return fmt.Errorf("%w: %s", errVerdict, strings.Join(s.Failures, "; "))
		}
	}
	return nil
}
