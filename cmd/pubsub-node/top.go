package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"padme/cmd/internal/flags"
)

// topFlags are the flags of `pubsub-node top`.
type topFlags struct {
	interval time.Duration
	count    int
	json     bool
}

func newTop(s *session) *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use:   "top [NAME]",
		Short: "Watch locks, holders, waiters and rates",
		Long: `top shows the lock NAME, or all locks, those first for which most wait: who holds
them and for how long ("?" while a root looks for a token that was lost), how many
wait and who is next, and entries per second. Voters that do not answer the roots are
named above the locks; see "pubsub-node voters show".

On a terminal it goes on in place until q is pressed or it is interrupted. Elsewhere it
prints a snapshot of all locks every --interval, with an empty line between two, and
with --json one object per snapshot and line.`,
		Example: `  pubsub-node top
  pubsub-node top crane -n 1
  pubsub-node top --json | jq '.locks[] | select(.waiting > 5)'`,
		Args:              oneLockOrAll,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.interval < 100*time.Millisecond {
				return usageError("--interval %v is below 100ms", f.interval)
			}
			if cmd.Flags().Changed("count") && f.count < 1 {
				return usageError("--count %d is below 1", f.count)
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, optional(args), stream(cmd))
		},
	}
	fs := cmd.Flags()
	flags.DurationVar(fs, &f.interval, "interval", "", time.Second, "`time` between two snapshots")
	fs.IntVarP(&f.count, "count", "n", 0, "end after this `number` of snapshots (default: when interrupted)")
	fs.BoolVar(&f.json, "json", false, "one JSON object per snapshot")
	return cmd
}

func (f *topFlags) run(ctx context.Context, s *session, name string, out io.Writer) error {
	p, err := s.joinToRead(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	m := watchLocks(ctx, p, name)
	defer m.stop()
	inPlace := !f.json && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
	if inPlace {
		quitting, restore := quitKey(ctx)
		defer restore()
		ctx = quitting
	}
	wait := time.NewTimer(s.pause()) // in which the broker tells what it retains
	defer wait.Stop()
	for shown := 0; ; {
		select {
		case <-ctx.Done():
			return endOfStream(ctx)
		case err := <-m.failed:
			return endedBy(ctx, err)
		case <-wait.C:
		}
		if shown == 0 {
			answer, cancel := context.WithTimeout(ctx, s.timeout)
			_ = roundTrip(answer, p) // the snapshot says if there is no connection
			cancel()
		}
		wait.Reset(f.interval)
		if err := f.write(out, m.snapshot(time.Now()), s, shown, inPlace); err != nil {
			return err
		}
		if shown++; shown == f.count {
			return nil
		}
	}
}

// write writes the snapshot after so many others.
func (f *topFlags) write(out io.Writer, snap topSnapshot, s *session, before int, inPlace bool) error {
	if f.json {
		return writeJSON(out, []topSnapshot{snap})
	}
	var text bytes.Buffer
	width, height := topWidth, 0
	if inPlace {
		if w, h, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 && h > 0 { // a serial line may not know
			width, height = w, h
		}
	}
	writeTop(&text, snap, s.domain+" at "+s.broker, width, height)
	switch {
	case inPlace: // home, each line to its end, then the rest of the screen
		lines := bytes.ReplaceAll(bytes.TrimSuffix(text.Bytes(), []byte("\n")), []byte("\n"), []byte("\x1b[K\n"))
		_, err := fmt.Fprintf(out, "\x1b[H%s\x1b[K\x1b[J\n", lines)
		return err
	case before > 0:
		fmt.Fprintln(out)
	}
	_, err := out.Write(text.Bytes())
	return err
}
