package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"padme/cmd/internal/flags"
	"padme/qosmutex/plan"
)

// planFlags are the flags of `pubsub-node plan` that say what is wanted.
type planFlags struct {
	spec               *simSpec
	scenario           string
	require            []string
	minimize, maximize string
	then               []string
	budget             time.Duration
	runs               int
	zone               share
	verify             time.Duration // 0: not
	asJSON             bool
}

func newPlan(s *session) *cobra.Command {
	f := &planFlags{spec: newSimSpec(), zone: share{0.02, 1}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Recommend an algorithm, models, and a fan-out for a workload",
		Long: `plan simulates a workload with the algorithms, the models of PADME, and several
fan-outs, and recommends the one that meets the requirements and is best by the goal. It
prints what it predicts of that choice, of the runner-up, and of what is used today, which
decided, what was refused and why, what would change the choice, and how to apply it.

The workload is that of "pubsub-node sim": a scenario file, flags, or both. Of a lock that
is in use "plan workload" writes the file, from a recording. --algorithm,
--models and --fanout say what is used today (default: level-forward-forward-forward with
a fan-out of 8, as locks have it that nobody configured).

--require takes, as often as it is given, one of
  survive=LIST     somebody enters after the death of root, holder, member
  deadlines        a deadline is kept, or refused at once
  no-starvation    the number of requests that overtake another is bounded
  FIGURE < LIMIT   also <=, > and >=; times as 20ms or 3s
--minimize takes a FIGURE, --maximize one of those that are better when greater; --then
decides where that goal cannot tell. A difference below --zone does not matter. FIGURE is
  wait.p50, wait.p99, wait.max, wait.mean    with [N]: of requests with priority N
  messages, upkeep    messages for each entry; other messages in a second
  never, entries, delay, inversions, missed, refused, fairness    as in the table of sim
  recovery.holder, recovery.root    from a death until the lock is granted again. If one
                                    is required, a time-to-live is recommended, too

All choices meet the same requests. Half of the budget goes to rounds that each drop the
worse half of the choices, the rest to telling the last ones apart and to predicting their
figures with other seeds, also at 80 and 120 % of the load. With --runs instead of
--budget the same seed gives the same plan on every machine. Interrupted, plan prints what
it knows by then.

--verify makes the requests of a further run in real time, for a minute or the given time:
over an MQTT broker in this process, with a process for each participant, and messages
that take as long as in the workload. Meanwhile it measures how much longer they take
here, and gives that to the simulator. The figures of the real run should be in the
intervals that hold 95 % of simulated runs of that length.

Exit codes: 1 nothing is left that could be recommended, it does not meet the limits, or
the real run does not fit the prediction;
2 the command line or the file is wrong, 128+n after signal n.`,
		Example: `  pubsub-node plan --scenario cranes.yaml
  pubsub-node plan --scenario cranes.yaml --require survive=root,holder --require 'wait.p99[0] < 3s' --minimize wait.p99 --then messages
  pubsub-node plan --nodes 20 --latency 20ms --cs 50ms --think exponential:2s --maximize fairness --budget 10s
  pubsub-node plan --scenario pool.yaml --require no-starvation --minimize messages --runs 500 --json
  pubsub-node plan --scenario cranes.yaml --runs 300 --verify=5m`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s.verbose) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.scenario, "scenario", "", "YAML `file` that describes the workload, as that of sim")
	fs.StringArrayVar(&f.require, "require", nil, "what a choice must meet: a `requirement` as above")
	fs.StringVar(&f.minimize, "minimize", "", "`figure` that decides (default: wait.p99, then messages)")
	fs.StringVar(&f.maximize, "maximize", "", "`figure` that decides: fairness or entries")
	fs.StringArrayVar(&f.then, "then", nil, "`figure` that decides where the goals before cannot tell")
	fs.Var(&f.zone, "zone", "`share` of a figure that a difference must exceed to matter")
	flags.DurationVar(fs, &f.budget, "budget", "", time.Minute, "how long it may take")
	fs.IntVar(&f.runs, "runs", 0, "`number` of runs at most, instead of --budget")
	flags.DurationVar(fs, &f.verify, "verify", "", 0, "run the recommendation over the real stack for that long, and compare")
	fs.Lookup("verify").NoOptDefVal = "1m"
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	fs.AddFlagSet(f.spec.options)
	complete(cmd, "minimize", plan.FigureNames)
	complete(cmd, "maximize", func() []string { return []string{"fairness", "entries"} })
	complete(cmd, "then", plan.FigureNames)
	complete(cmd, "algorithm", algorithmNames)
	complete(cmd, "models", modelNames)
	cmd.AddCommand(newPlanWorkload())
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, verbose bool) error {
	p, err := f.problem(cmd.Flags())
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as for sim
	}
	ctx, sigs := watchSignals(cmd.Context())
	defer sigs.stop()
	limited := ctx
	if f.limitsTime(cmd.Flags()) {
		begun := time.Now()
		p.Spent = func() float64 { return float64(time.Since(begun)) / float64(f.budget) }
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, f.budget*5/4, errors.New("the budget is over")) // ends a long run
		defer cancel()
	}
	stop := f.show(p, verbose)
	result, err := plan.Solve(limited, p)
	stop()
	switch {
	case errors.Is(err, plan.ErrPlan):
		return planError(err)
	case err != nil:
		return err
	}
	return f.tell(ctx, cmd.OutOrStdout(), p, result)
}

// tell prints the plan and, if it is wanted, verifies it.
func (f *planFlags) tell(ctx context.Context, out io.Writer, p *plan.Problem, result *plan.Plan) error {
	if !f.asJSON {
		if err := f.write(out, result); err != nil {
			return err
		}
	}
	verdict := verdictOf(result)
	if ctx.Err() != nil {
		verdict = fmt.Errorf("%w: the plan is what was known after %d runs", context.Cause(ctx), result.Runs)
	}
	var v *verification
	if f.verify > 0 && ctx.Err() == nil && len(result.Options) > 0 {
		var err error
		if v, err = f.verified(ctx, p, &result.Options[0].Contender); err != nil {
			verdict = err
		} else if !v.Fits {
			verdict = errors.Join(verdict, v.misfit())
		}
	}
	switch {
	case f.asJSON:
		if err := writeJSON(out, []planDocument{{result, v}}); err != nil {
			return err
		}
	case v != nil:
		if err := f.writeVerification(out, v, &result.Options[0]); err != nil {
			return err
		}
	}
	return verdict
}

// limitsTime reports whether the budget is a time.
func (f *planFlags) limitsTime(fs *pflag.FlagSet) bool { return f.runs == 0 || fs.Changed("budget") }

// verdictOf is an error if nothing can be recommended.
func verdictOf(p *plan.Plan) error {
	if len(p.Options) == 0 {
		return errors.New("every choice is refused: give up a requirement")
	}
	for _, v := range p.Options[0].Limits {
		if !v.Met {
			return fmt.Errorf("the best choice does not meet %q: raise the limit, or change the workload", v.Requirement)
		}
	}
	return nil
}

// planError is a usage error without the name of the package.
func planError(err error) error {
	return usageError("%s", strings.TrimPrefix(err.Error(), plan.ErrPlan.Error()+": "))
}

// show tells a person how far the plan is: at a terminal in place, else with --verbose a line
// for each phase.
func (f *planFlags) show(p *plan.Problem, verbose bool) (stop func()) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	if !terminal && !verbose {
		return func() {}
	}
	var mu sync.Mutex
	begun, told, phase := time.Now(), time.Time{}, ""
	p.Progress = func(g plan.Progress) {
		mu.Lock()
		defer mu.Unlock()
		line := fmt.Sprintf("pubsub-node: %s %d choices, %d runs, %s", g.Phase, g.Left, g.Runs, time.Since(begun).Round(time.Second))
		switch {
		case terminal && time.Since(begun) > patience && time.Since(told) > patience/4:
			fmt.Fprintf(os.Stderr, "\r%s\x1b[K", line)
			told = time.Now()
		case !terminal && g.Phase != phase:
			fmt.Fprintln(os.Stderr, line)
		}
		phase = g.Phase
	}
	return func() {
		if !told.IsZero() {
			fmt.Fprint(os.Stderr, "\r\x1b[K")
		}
	}
}
