package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"padme/qosmutex"
)

// queueLine is one line of `lock queue --json`.
type queueLine struct {
	Lock        string `json:"lock"`
	Resource    string `json:"resource"`
	Position    int    `json:"position"`      // 0 is inside, 1 the next
	Participant string `json:"participant"`   // or client
	Via         string `json:"via,omitempty"` // through which participant a client asks
	Priority    int64  `json:"priority"`
	Any         bool   `json:"any,omitempty"` // any resource of the lock will do
	Fence       string `json:"fence,omitempty"`
	RootDead    bool   `json:"root_dead,omitempty"` // so this is of before
}

func newLockQueue(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queue NAME[/RESOURCE]",
		Short: "Show who waits for a lock, in order",
		Long: `queue prints who holds the lock NAME, at position 0, and who waits for it in the order
of service, as its root last published it: of each resource the first 16, and how many
more there are. Since when the others wait nobody publishes; "lock watch" shows it as
they come in. A client of a gateway is followed by the gateway: "esp32 (via gate)".

Exit codes: 1 nothing is known of the lock, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node lock queue crane
  pubsub-node lock queue crane/hook --json | jq 'select(.position == 1)'`,
		Args:              argCount(1, 1, "NAME or NAME/RESOURCE"),
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown, dead, err := s.statesOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), queueLines(shown, dead))
			}
			return writeQueue(cmd.OutOrStdout(), shown)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// statesOf reads what is published of NAME or NAME/RESOURCE, and whose roots are dead.
func (s *session) statesOf(ctx context.Context, lock string) (states []qosmutex.State, dead map[string]bool, err error) {
	name, resource, given, err := cutLock(lock)
	if err != nil {
		return nil, nil, err
	}
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := s.joinToRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave(p)
	if states, err = lockStates(ctx, s.reading(p), p, name); err != nil {
		return nil, nil, err
	}
	states = slices.DeleteFunc(states, func(st qosmutex.State) bool { return given && st.Resource != resource })
	if len(states) == 0 {
		return nil, nil, fmt.Errorf("nothing is known of lock %q: see the others with \"pubsub-node lock ls\"", lock)
	}
	dead, err = s.deadRoots(ctx, p, rootsOf(states))
	return states, dead, err
}

// cutLock is splitLock that tells whether a resource was given.
func cutLock(arg string) (name, resource string, given bool, err error) {
	name, resource, err = splitLock(arg)
	return name, resource, len(arg) > len(name), err
}

func queueLines(states []qosmutex.State, dead map[string]bool) (lines []queueLine) {
	for _, st := range states {
		if st.Holder != "" {
			lines = append(lines, queueLine{st.Topic, st.Resource, 0, st.Holder, st.Via, st.Priority, false, st.Fence, dead[st.Root]})
		}
		for i, w := range st.Queue {
			lines = append(lines, queueLine{st.Topic, st.Resource, i + 1, w.Participant, w.Via, w.Priority, w.Any, "", dead[st.Root]})
		}
	}
	return lines
}

func writeQueue(w io.Writer, states []qosmutex.State) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tRESOURCE\tPOSITION\tPARTICIPANT\tPRIORITY")
	for _, st := range states {
		for _, l := range queueLines([]qosmutex.State{st}, nil) {
			participant := who(l.Participant, l.Via)
			if l.Any {
				participant += " (any)"
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\n", printable(l.Lock), printable(l.Resource), l.Position, participant, l.Priority)
		}
		if more := st.Waiting - len(st.Queue); more > 0 {
			fmt.Fprintf(t, "%s\t%s\t\tand %d more\t\n", printable(st.Topic), printable(st.Resource), more)
		}
	}
	return t.Flush()
}
