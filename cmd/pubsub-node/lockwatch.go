package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
)

func newLockWatch(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [NAME]",
		Short: "Print what happens to locks as it happens",
		Long: `watch prints each event of the lock NAME, or of all locks, until it is
interrupted: requested, granted, released, lost, withdrawn, denied,
reprioritised, and of the lock itself models, resources, regenerated and rooted.

how=… of a grant says how the token came: turn or root, in its turn; direct, straight
from the holder before; passing, out of turn, on its way to another; retained, again with
the token that was kept; resumed, before the root was restarted.`,
		Example: `  pubsub-node lock watch crane
  pubsub-node lock watch --json | jq 'select(.event == "lost")'`,
		Args:              oneLockOrAll,
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.whileJoined(cmd.Context(), s.joinToRead, func(ctx context.Context, p *pubsub.Participant) error {
				out := stream(cmd)
				for event, err := range qosmutex.WatchEvents(ctx, p, optional(args)) {
					switch {
					case ctx.Err() != nil:
					case errors.Is(err, qosmutex.ErrMissed): // the next ones come all the same
						fmt.Fprintln(os.Stderr, message(err))
						continue
					case err != nil:
						return err
					case !asked(optional(args), event.Topic):
						continue
					case asJSON:
						err = writeJSON(out, []qosmutex.Event{event})
					default:
						err = writeEvent(out, event)
					}
					if err != nil {
						return err
					}
				}
				return endOfStream(ctx)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// endOfStream: who reads until interrupted has got what he wanted.
func endOfStream(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.As(cause, new(interrupted)) {
		return cause
	}
	return nil
}

func writeEvent(w io.Writer, e qosmutex.Event) error {
	lock := e.Topic
	if e.Resource != "" {
		lock += "/" + e.Resource
	}
	parts := []string{e.At.Local().Format("15:04:05.000"), fmt.Sprintf("%-13s", e.Event), lock, e.Participant}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	add("via", e.Via)
	if e.Request != "" {
		add("priority", fmt.Sprint(e.Priority))
	}
	add("fence", e.Fence)
	add("how", e.How)
	add("waited", seconds(e.Waited))
	add("held", seconds(e.Held))
	add("models", e.Models)
	if e.Event == qosmutex.EventResources {
		add("resources", resourcesText(e.Resources, e.Open))
	}
	add("reason", e.Reason)
	_, err := fmt.Fprintln(w, printable(strings.Join(parts, " ")))
	return err
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
