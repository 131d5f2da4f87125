package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

func newLockList(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List locks: who holds them, who waits",
		Long: `ls prints the state of every resource of the lock NAME, or of all locks, as the
roots last published it: held, by HOLDER ("esp32 (via gate)": a client of the gateway
gate); granted, but nobody is known to be inside; free; or unknown, while the root looks
for a token that was lost. FENCE is that of the last entry that the root knows of. With
--json each line is one object as in the retained messages themselves, with the queue.

Roots that are not alive are named on standard error, as what is shown of their locks is
of before; with --json it says "root_dead":true, too. So are voters that do not answer the
roots; see "pubsub-node voters show".`,
		Example: `  pubsub-node lock ls
  pubsub-node lock ls crane --json | jq .queue`,
		Args:              oneLockOrAll,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.whileJoined(cmd.Context(), s.joinToRead, func(ctx context.Context, p *pubsub.Participant) error {
				var states []qosmutex.State
				var views []qosmutex.View
				both, during := errgroup.WithContext(ctx)
				both.Go(func() (err error) { states, err = lockStates(during, s.reading(p), p, optional(args)); return err })
				both.Go(func() (err error) { views, err = lockViews(during, p, s); return err })
				if err := both.Wait(); err != nil {
					return err
				}
				dead, err := s.deadRoots(ctx, p, rootsOf(states))
				if err != nil {
					return err
				}
				if asJSON {
					lines := make([]shownState, len(states))
					for i, st := range states {
						lines[i] = shownState{st, dead[st.Root]}
					}
					err = writeJSON(cmd.OutOrStdout(), lines)
				} else {
					err = writeStates(cmd.OutOrStdout(), states)
				}
				if err != nil {
					return err
				}
				if missing := missingVoters(views); len(missing) > 0 {
					fmt.Fprintf(os.Stderr, "pubsub-node: voters are missing: %s: see \"pubsub-node voters show\"\n", printable(strings.Join(missing, ",")))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// oneLockOrAll takes the NAME of a lock, or nothing for all.
func oneLockOrAll(cmd *cobra.Command, args []string) error {
	if err := argCount(0, 1, "")(cmd, args); err != nil || len(args) == 0 {
		return err
	}
	switch name, resource, given := strings.Cut(args[0], "/"); {
	case args[0] == "":
		return usageError("NAME is empty: leave it out for all locks")
	case given:
		return usageError("%s/%s: give the NAME of a lock without a resource, all of them are shown", name, resource)
	default:
		return checkTopicName(name)
	}
}

// missingVoters are those that any root misses.
func missingVoters(views []qosmutex.View) []string {
	var missing []string
	for _, v := range views {
		missing = append(missing, v.Missing...)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// optional is the only argument, or "" when there is none.
func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// asked reports whether a lock topic is meant by name, or by no name: then all are but
// that by which servers agree among themselves.
func asked(name, topic string) bool { return name != "" || topic != gateway.RoleTopic }

// lockStates reads the retained state of every resource of a lock topic, or of
// all with an empty name, sorted.
func lockStates(ctx context.Context, r reading, p *pubsub.Participant, name string) ([]qosmutex.State, error) {
	type key struct{ topic, resource string }
	latest := map[key]qosmutex.State{}
	watch := func(ctx context.Context) iter.Seq2[qosmutex.State, error] { return qosmutex.WatchStates(ctx, p, name) }
	err := snapshot(ctx, r, watch, func(st qosmutex.State) {
		if !asked(name, st.Topic) {
			return
		}
		if latest[key{st.Topic, st.Resource}] = st; st.Epoch == "" { // cleared
			delete(latest, key{st.Topic, st.Resource})
		}
	})
	if err != nil {
		return nil, err
	}
	var states []qosmutex.State
	for _, st := range latest {
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b qosmutex.State) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Resource, b.Resource))
	})
	return states, nil
}

func writeStates(w io.Writer, states []qosmutex.State) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tRESOURCE\tSTATE\tHOLDER\tPRIORITY\tFENCE\tSINCE\tWAITING")
	for _, st := range states {
		holder, priority := who(st.Holder, st.Via), fmt.Sprint(st.Priority)
		if st.Holder == "" {
			holder, priority = "-", "-"
		}
		fence := cmp.Or(printable(st.Fence), "-")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", printable(st.Topic), printable(st.Resource), printable(st.Status), holder, priority, fence, since(st.Since), st.Waiting)
	}
	return t.Flush()
}

// since shows a time of today without the day.
func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	at = at.Local()
	now := time.Now()
	if at.Year() == now.Year() && at.YearDay() == now.YearDay() {
		return at.Format(time.TimeOnly)
	}
	return at.Format("2006-01-02T15:04:05")
}

// writeJSON writes one object per line.
func writeJSON[T any](w io.Writer, items []T) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, item := range items {
		text.Reset()
		if err := enc.Encode(item); err != nil {
			return err
		}
		if _, err := w.Write(escapeUnprintable(text.Bytes())); err != nil {
			return err
		}
	}
	return nil
}
