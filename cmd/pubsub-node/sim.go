package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// simFlags are the flags of `pubsub-node sim` that say what to do with a scenario.
type simFlags struct {
	spec           *simSpec
	scenario       string
	compare, sort  string
	log            string
	asJSON, logAll bool
	seeds          int
}

func newSim(s *session) *cobra.Command {
	f := &simFlags{spec: newSimSpec()}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate a lock: who would enter when, at what cost",
		Long: `sim runs a mutual exclusion algorithm on simulated participants, without a broker
and in simulated time, and prints what it measured. The same scenario and seed
give the same output. Without flags it is the example of the PADME paper.

Participants are named A, B, C … (n1, n2 … if there are more than 26). PADME's are
configured as real ones are: the most important creates the topic, all share a
register, by which they elect another root when it ends, and the tree adapts; with
--tree static, or parents in a file, it is the papers', complete in the order of the
names and for good. Other algorithms always have that tree; those without one take A
for the server or the first holder of the token. All of them ask for one resource at
the start of the measured time, stay inside for --cs, and ask again --think after
they have left: never before, and never twice at a time. This decides the result;
with several --resources each request is for one that is drawn, with --asks-for '*'
for any that is free; with --every they ask by the clock instead, whatever became
of earlier requests, and with --trace as a file says. At one instant applications
leave and ask before messages arrive. Messages of upkeep (tree, heartbeats, receipts)
are not among those per entry; PADME's sessions last for --ttl, its heartbeats and the
lease of its root follow from that. Loss and faults begin with the measured time. The
register takes requests as long as messages take, and never fails.

A TIME is 20ms or 1.5s, or seconds without a unit; where it may vary also one of
  uniform:LEAST,GREATEST   exponential:MEAN
  normal:MEAN,DEVIATION    lognormal:MEAN,DEVIATION

Use on Reply or Release gives more entries to participants near the root: the line
fairness says how equal they are. Under fair without use a request that finds n
waiting is overtaken by at most n + 16 later ones.

Waiting times include requests that still wait at the end, with what they have
waited so far; UNSERVED says how many, starved and NEVER which participants never
entered. Of a run in which nobody entered for the last tenth of the time, though
requests waited, no fairness is shown: it is dead.

Static algorithms, all but padme, assume a network that loses, doubles and
reorders nothing. On one that does, messages are numbered, acknowledged and
repeated for them, and the output says so.

--scenario FILE is YAML with the names of the flags as keys; flags win over it.
Only in a file: latency as a matrix, a list of rows;
  participants   a list of id, priority, parent, idle, and cs, think, every,
                 deadlines, request-priorities, give-up of one participant.
                 With nodes it changes those of the tree, else it is all of them.
  faults         a list of at, what and node: crash, restart, pause, resume, cut,
                 reconnect; with to: priority, models; or groups: partition; or
                 neither: heal.
The scenario in the output of --json is such a file.

--compare takes algorithms, padme:MODELS, all-models (the paper's sixteen) and
all, separated by commas, and prints one line for each, the best by --sort first.

With --seeds each runs with N seeds; the table has means with 95 % intervals, and
says tie of those that are not told from the best by --sort. In each seed all meet
the same requests. Of one seed the order of the table may be chance.

Charts of what --json prints are drawn by a program of its own in the source:
go run ./cmd/pubsub-node/simplot.

An interrupted run prints what it has measured. Exit codes: 1 when an algorithm
broke a promise, such as two inside at once (what happened before is printed), 2
when the scenario is wrong, 128+n after signal n.`,
		Example: `  pubsub-node sim
  pubsub-node sim --algorithm list
  pubsub-node sim --models level-replace-use-use --latency 500ms --think 500ms
  pubsub-node sim --algorithm raymond --nodes 100 --latency lognormal:20ms,10ms --cs 50ms --think exponential:5s
  pubsub-node sim --compare all-models --sort messages
  pubsub-node sim --compare all-models --sort p99 --think exponential:5s --seeds 20
  pubsub-node sim --resources hook,boom --asks-for '*' --latency 20ms
  pubsub-node sim --compare padme,raymond,central --loss 0.05 --latency 20ms --json
  pubsub-node sim --scenario harbor.yaml --seed 7 --log what-happened.txt`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.logAll = s.verbose
			return f.run(cmd)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.AddFlagSet(f.spec.options)
	fs.StringVar(&f.scenario, "scenario", "", "YAML `file` that describes the scenario")
	fs.StringVar(&f.compare, "compare", "", "run several: `names`, padme:MODELS, all-models, all")
	fs.StringVar(&f.sort, "sort", "entries", "`column` of --compare: "+strings.Join(columnNames(), ", "))
	fs.IntVar(&f.seeds, "seeds", 1, "run each with so many `seeds`, from --seed on; show means with intervals")
	fs.StringVar(&f.log, "log", "", "write to this `file` what happened, with -v upkeep as well")
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object, with --compare one per line")
	complete(cmd, "algorithm", func() []string { return append(algorithmNames(), "list") })
	complete(cmd, "models", modelNames)
	complete(cmd, "sort", columnNames)
	complete(cmd, "compare", func() []string { return append(algorithmNames(), "all", "all-models") })
	return cmd
}

// complete offers names for a flag.
func complete(cmd *cobra.Command, flag string, names func() []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	})
}

func (f *simFlags) run(cmd *cobra.Command) error {
	out, s := cmd.OutOrStdout(), f.spec
	if s.algorithm == "list" {
		return listAlgorithms(out, f.asJSON)
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) { s.given[flag.Name] = true })
	if err := f.read(cmd.Flags()); err != nil {
		return err
	}
	all, err := f.contenders(cmd.Flags())
	if err != nil {
		return err
	}
	var start protocol.Time
	for i := range all { // before anything is written
		sc, err := s.build(&all[i])
		if err != nil {
			return wrong(err)
		}
		start = sc.Start
	}
	ctx, sigs := watchSignals(cmd.Context())
	defer sigs.stop()
	trace, closeLog, err := f.openLog(start)
	if err != nil {
		return err
	}
	begun := time.Now()
	outcomes, err := s.simulateAll(ctx, all, f.seeds, trace)
	if err != nil {
		return err // the log is still written to
	}
	if err := closeLog(); err != nil {
		return err
	}
	if f.logAll {
		tellSpeed(outcomes, time.Since(begun))
	}
	switch {
	case f.seeds > 1:
		return f.finishSeeds(ctx, out, outcomes)
	case f.compare != "":
		return f.finishAll(ctx, out, outcomes)
	}
	return f.finishOne(ctx, out, &outcomes[0])
}

// read takes what the file and the flags say.
func (f *simFlags) read(flags *pflag.FlagSet) error {
	if f.scenario != "" {
		if err := f.spec.readFile(f.scenario, flags); err != nil {
			return wrong(err)
		}
	}
	if !slices.Contains(columnNames(), f.sort) {
		return usageError("--sort %q%s: the columns are %s", f.sort, didYouMean(f.sort, columnNames()), strings.Join(columnNames(), ", "))
	}
	if f.seeds < 1 || f.seeds > maxSeeds {
		return usageError("--seeds %d: from 1 to %d", f.seeds, maxSeeds)
	}
	if f.seeds > 1 && flags.Changed("log") {
		return usageError("--log and --seeds contradict each other: log one run")
	}
	if f.compare == "" {
		if flags.Changed("sort") {
			return usageError("--sort is for the table of --compare")
		}
		return nil
	}
	for name, why := range map[string]string{"algorithm": "name it in --compare", "log": "log one run"} {
		if flags.Changed(name) {
			return usageError("--%s and --compare contradict each other: %s", name, why)
		}
	}
	return nil
}

// wrong is a usage error about a scenario, in the words of the command line; a file
// that cannot be read is an error of another kind.
func wrong(err error) error {
	if errors.As(err, new(*os.PathError)) {
		return err
	}
	return usageError("%s", strings.TrimPrefix(err.Error(), sim.ErrScenario.Error()+": "))
}

// contenders are what is to be run.
func (f *simFlags) contenders(flags *pflag.FlagSet) ([]contender, error) {
	models, err := modelsNamed(f.spec.models)
	if err != nil {
		return nil, usageError("%w", err)
	}
	if f.compare != "" {
		return contenders(f.compare, models)
	}
	a, err := algorithmNamed(f.spec.algorithm)
	if err != nil {
		return nil, usageError("%w", err)
	}
	c := contender{a, models}
	if !c.hasModels() && flags.Changed("models") {
		return nil, usageError("--models are PADME's, %s has none", a.Name)
	}
	return []contender{c}, nil
}

// openLog returns what writes the log, nil without one, and what ends it.
func (f *simFlags) openLog(start protocol.Time) (trace func(*sim.Record), end func() error, err error) {
	if f.log == "" {
		return nil, func() error { return nil }, nil
	}
	file, err := os.Create(f.log)
	if err != nil {
		return nil, nil, fmt.Errorf("--log: %w", err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprintf(w, "# what is measured begins at %s\n", short(start))
	return sim.TraceTo(w, logged(f.logAll)), func() error { return errors.Join(w.Flush(), file.Close()) }, nil
}

// logged keeps what a person looks for in a log: what the papers' figures show and
// what went wrong; upkeep only with --verbose.
func logged(verbose bool) func(*sim.Record) bool {
	if verbose {
		return nil
	}
	return func(r *sim.Record) bool {
		switch r.Event {
		case sim.Delivered:
			return false
		case sim.Sent, sim.Lost, sim.Duplicated, sim.Rejected:
			return r.Kind.Counted()
		}
		return true
	}
}

func (f *simFlags) finishOne(ctx context.Context, out io.Writer, o *outcome) error {
	if o.err != nil {
		return failed(o)
	}
	var err error
	if f.asJSON {
		err = writeJSON(out, []simReport{f.spec.report(o)})
	} else {
		err = f.spec.writeReport(out, o)
	}
	if err != nil {
		return err
	}
	if !o.ended {
		return fmt.Errorf("%w: the result is that of the first %s", context.Cause(ctx), short(o.result.Measured))
	}
	return nil
}

func (f *simFlags) finishAll(ctx context.Context, out io.Writer, outcomes []outcome) error {
	rows := f.spec.rows(outcomes, f.sort)
	var err error
	if f.asJSON {
		reports := make([]simReport, len(rows))
		for i := range rows {
			reports[i] = rows[i].report
		}
		err = writeJSON(out, reports)
	} else {
		err = f.spec.writeComparison(out, rows)
	}
	if err != nil {
		return err
	}
	for i := range outcomes {
		if o := &outcomes[i]; o.err != nil {
			err = failed(o)
		}
	}
	if err == nil && len(rows) < len(outcomes) {
		return fmt.Errorf("%w: %d of %d runs were over", context.Cause(ctx), len(rows), len(outcomes))
	}
	return err
}

// failed is the error of a run. What led to a broken promise is printed on lines of
// its own.
func failed(o *outcome) error {
	if !errors.Is(o.err, sim.ErrViolation) {
		return o.err
	}
	fmt.Fprintf(os.Stderr, "pubsub-node: %s broke a promise (what is measured begins at %s):\n", o.String(), short(o.scenario.Start))
	for line := range strings.Lines(o.err.Error()) {
		fmt.Fprintln(os.Stderr, "  "+printable(strings.TrimSpace(line)))
	}
	return &exitError{code: exitFailure}
}
