package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"padme/cmd/internal/flags"
	"padme/internal/wait"
	"padme/qosmutex"
	"padme/qosmutex/register/journal"
)

// resetRisks is what an operator must know before.
const resetRisks = `A register that is reset forgets who is the root of each lock, the settings of the
locks and the fences that were given out. It begins a new domain, which is safe only if
nobody goes on in the old one:

  - Stop every voter, or broker, that keeps the old one. If a majority of the old voters
    runs elsewhere, two roots rule: two may hold the same lock.
  - Whoever holds a lock goes on until its session ends. So nothing is reset before
    the grace is over, and nothing may be started here until then.
  - The fences of the new domain begin at the clock of the machine. If that went back,
    they are below those of the old one.`

func newVotersReset() *cobra.Command {
	var dir string
	var yes bool
	var grace time.Duration
	longest := (qosmutex.WAN().Grace() + time.Second - 1).Truncate(time.Second) // somebody reads it
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Start over when a majority of the voters, or the file of a broker, is lost",
		Long: `reset puts the file of a voter, or of "pubsub-node broker", aside, so that it starts
over the next time it is started. It is the last resort: for a majority of voters that
is gone for good, and for a file that is damaged. One voter that is lost needs no more
than "pubsub-node voters replace".

` + resetRisks + `

Stop the voter, reset each that is left, on its machine, then start them all, with new
ones in place of those that are gone. On a terminal it asks; elsewhere it needs --yes.

Exit codes: 0 done, 1 it cannot be done, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node voters reset --data /var/lib/padme
  pubsub-node voters reset --data /var/lib/padme --yes --grace 5s   # no lock had a TTL above 4s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usageError("give --data, the directory of the voter or broker: the broker prints it when it starts")
			}
			if grace < 0 {
				return usageError("--grace %v is negative", grace)
			}
			path, err := fileToReset(dir)
			if err != nil {
				return err
			}
			if err := confirmReset(cmd.OutOrStdout(), path, yes); err != nil {
				return err
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return resetFile(ctx, cmd.OutOrStdout(), path, grace)
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", "`directory` of the voter or broker")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	flags.DurationVar(cmd.Flags(), &grace, "grace", "", longest, "how long to wait until everything granted has expired: above the longest time-to-live of a lock")
	return cmd
}

// resetFile puts a register aside once everything granted by it has expired.
func resetFile(ctx context.Context, w io.Writer, path string, grace time.Duration) error {
	aside, err := journal.SetAside(path, func() error {
		fmt.Fprintf(w, "waiting %v until everything granted has expired\n", grace)
		if !wait.Sleep(ctx, grace) {
			return fmt.Errorf("nothing was reset: %w", context.Cause(ctx))
		}
		// Who held by the word of the register that is forgotten says nothing in the next.
		if err := os.Remove(path + ".members"); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	switch {
	case errors.Is(err, journal.ErrInUse):
		return fmt.Errorf("%w: stop the voter or broker first", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w, "reset: the former register is in %s; the next start begins a new one\n", aside)
	return err
}

// fileToReset finds the register in a directory.
func fileToReset(dir string) (string, error) {
	var found []string
	for _, name := range []string{voterFile, registerFile} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("--data: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s has no register, neither %s of a voter nor %s of a broker or gateway: give the --data that it was started with; one that is empty needs no reset", dir, voterFile, registerFile)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%s has the registers of a voter and of a broker: move the one that is to stay to another directory", dir)
}

// confirmReset asks on a terminal. Signals must end the program while it waits.
func confirmReset(w io.Writer, path string, yes bool) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usageError("it has to be confirmed: read \"pubsub-node voters reset --help\", then give --yes")
	}
	fmt.Fprintf(w, "%s\n\nReset %s? Type yes: ", resetRisks, path)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was reset: it was not confirmed")
	}
	return nil
}
