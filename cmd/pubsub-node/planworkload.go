package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"padme/cmd/internal/recording"
	"padme/cmd/pubsub-node/internal/workload"
)

func newPlanWorkload() *cobra.Command {
	return &cobra.Command{
		Use:   "workload RECORDING [LOCK]",
		Short: "Describe the workload of a lock that was recorded",
		Long: `workload reads a file of "pubsub-node record" and prints a scenario file for plan and
sim: who asks for the lock, with which priority and for what, how long they hold it, how
long they pause, and how long a message takes. Then plan says what other models would do.
LOCK may be left out if the recording has events of one lock only.

Of an asker whose requests overlap it prints every, the time from one request to the next,
else think, the time from the end of one to the next. Times are distributions by their mean
and spread: of five per cent at most constant, below a half normal, about the mean
exponential, else lognormal. What most askers have in common is said once, and differences
of times that chance explains are left out. Comments at the top say what is unsure: edit
the file.

Record for long enough that each asker asks ten times at least. A client of a gateway asks
for itself, and so does each run of "pubsub-node lock" without --id.

Exit codes: 1 the recording has too few requests;
2 the command line is wrong, or the file is no recording or has no events of the lock.`,
		Example: `  pubsub-node record shift.padme           # interrupt it after the shift
  pubsub-node plan workload shift.padme crane > crane.yaml
  pubsub-node plan --scenario crane.yaml --require survive=holder
  pubsub-node plan --scenario crane.yaml --runs 300 --verify=5m`,
		Args: argCount(1, 2, "RECORDING"),
		RunE: func(cmd *cobra.Command, args []string) error {
			lock := ""
			if len(args) > 1 {
				lock = args[1]
				if err := checkTopicName(lock); err != nil {
					return err
				}
			}
			return writeWorkload(cmd.OutOrStdout(), args[0], lock)
		},
	}
}

// writeWorkload prints the scenario of a lock, "" of the only one that a recording has.
func writeWorkload(out io.Writer, name, lock string) error {
	f, err := os.Open(name)
	if err != nil {
		return usageError("%w: \"pubsub-node record %s\" makes it", err, shellWord(name))
	}
	defer f.Close()
	w := workload.New(lock)
	s, err := recording.Read(f, w.Add)
	switch {
	case errors.Is(err, workload.ErrTooMany):
		return fmt.Errorf("%s: more than %d askers, as if each had a name of its own for each request: give them --id, and record again", name, workload.MaxAskers)
	case err != nil:
		return usageError("%s: %w: \"pubsub-node record\" makes one", name, err)
	}
	scenario, err := w.Describe(&s)
	if err != nil {
		return undescribed(name, err)
	}
	if err := checkScenario(scenario); err != nil {
		return fmt.Errorf("%s: plan cannot simulate this workload: %w", name, err)
	}
	_, err = out.Write(scenario)
	return err
}

// undescribed says what to do about a recording that does not tell the workload.
func undescribed(name string, err error) error {
	var which *workload.LockError
	switch {
	case errors.Is(err, workload.ErrTooFew):
		return fmt.Errorf("%s: %w: record for longer, and give each that asks an --id of its own that stays", name, err)
	case !errors.As(err, &which):
		return err
	case len(which.Locks) == 0:
		return usageError("%s: no lock has events in it: record while locks are used", name)
	case which.Lock == "":
		return usageError("%s: %w: name one of them: %s", name, err, lockList(which.Locks))
	}
	return usageError("%s: %w: there are %s", name, err, lockList(which.Locks))
}

// lockList names locks, the first of them if they are many.
func lockList(names []string) string {
	const most = 10
	var words []string
	for _, n := range names[:min(most, len(names))] {
		words = append(words, shellWord(printable(n)))
	}
	if more := len(names) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// checkScenario reads a scenario as plan does.
func checkScenario(scenario []byte) error {
	s := newSimSpec()
	if err := s.read(bytes.NewReader(scenario), ".", s.options); err != nil {
		return err
	}
	algorithm, err := algorithmNamed(s.algorithm)
	if err != nil {
		return err
	}
	models, err := modelsNamed(s.models)
	if err != nil {
		return err
	}
	_, err = s.build(&contender{algorithm, models})
	return err
}
