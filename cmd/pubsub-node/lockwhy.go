package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"padme/qosmutex"
)

// explanation is one resource in `lock why --json`.
type explanation struct {
	Lock     string             `json:"lock"`
	Resource string             `json:"resource"`
	Status   string             `json:"status"`
	Holder   string             `json:"holder,omitempty"`
	Via      string             `json:"via,omitempty"`
	Fence    string             `json:"fence,omitempty"`
	How      string             `json:"how,omitempty"`
	Decision *qosmutex.Decision `json:"decision,omitempty"`
	Waiting  int                `json:"waiting"`
	Queue    []qosmutex.Waiter  `json:"queue,omitempty"`
	RootDead bool               `json:"root_dead,omitempty"` // so this is of before
}

func newLockWhy(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why NAME[/RESOURCE] [FENCE]",
		Short: "Explain who got a lock, and who comes next",
		Long: `why says who was given the lock NAME last and who waited then, who waits now, and what
puts each behind the one before it: a priority, when it asked, or what the models of the
lock say. It is what the root decided by, as it published it: of each resource the latest
grant, and the first 16 who wait.

With FENCE it explains the entry with that fence, if that is of the latest grant.

Exit codes: 1 nothing is known of the lock, of the entry or of the reason, and those of
"pubsub-node lock --help".`,
		Example: `  pubsub-node lock why crane
  pubsub-node lock why crane "$PADME_FENCE"     # under the lock: why did I get it?
  pubsub-node lock why crane --json | jq '.queue[] | {participant, by}'`,
		Args:              argCount(1, 2, "NAME or NAME/RESOURCE"),
		ValidArgsFunction: completeLock(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			fence := optional(args[1:])
			if n, err := strconv.ParseUint(fence, 10, 64); len(args) > 1 && (err != nil || n == 0) {
				return usageError("FENCE %q is not the number of an entry: see FENCE in \"pubsub-node lock ls\", or PADME_FENCE", fence)
			}
			shown, dead, err := s.statesOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if fence != "" {
				if shown, err = ofEntry(shown, fence); err != nil {
					return err
				}
			}
			if !asJSON {
				return writeReasons(cmd.OutOrStdout(), shown)
			}
			all := make([]explanation, len(shown))
			for i, st := range shown {
				all[i] = explanation{st.Topic, st.Resource, st.Status, st.Holder, st.Via, st.Fence, st.How, st.Decision, st.Waiting, st.Queue, dead[st.Root]}
			}
			return writeJSON(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per resource and line")
	return cmd
}

// ofEntry are the states whose latest decision an entry with that fence was made on: each
// resource has fences of its own.
func ofEntry(states []qosmutex.State, fence string) ([]qosmutex.State, error) {
	n, _ := strconv.ParseUint(fence, 10, 64)
	var of []qosmutex.State
	var latest []string
	for _, st := range states {
		if d := st.Decision; d != nil {
			if d.Covers(n) {
				of = append(of, st)
			}
			latest = append(latest, printable(d.Fence))
		}
	}
	if len(of) > 0 {
		return of, nil
	}
	if len(latest) == 0 {
		return nil, fmt.Errorf("nothing is known of the entry with fence %s: the root has given no grant since it is the root, or is an older program", fence)
	}
	return nil, fmt.Errorf("nothing is known of the entry with fence %s: only the latest grant is kept, here fence %s; \"pubsub-node record\" keeps all that is published", fence, strings.Join(latest, ", "))
}

func writeReasons(w io.Writer, states []qosmutex.State) error {
	for i := range states {
		st := &states[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s/%s is %s\n", printable(st.Topic), printable(st.Resource), statusText(st))
		if d := st.Decision; d == nil {
			fmt.Fprintln(w, "Why is not known: its root has given no grant since it is the root, or is an older program.")
		} else if err := writeDecision(w, d); err != nil {
			return err
		}
		if st.Waiting == 0 {
			fmt.Fprintln(w, "Nobody waits now.")
			continue
		}
		fmt.Fprintf(w, "Waiting now, in the order of service: %d\n", st.Waiting)
		if err := writeWaiters(w, st.Queue, st.Waiting); err != nil {
			return err
		}
	}
	return nil
}

func statusText(st *qosmutex.State) string {
	switch {
	case st.Holder != "":
		text := fmt.Sprintf("held by %s since %s, fence %s", who(st.Holder, st.Via), since(st.Since), printable(st.Fence))
		if how := howText(st.How); how != "" {
			text += ", " + how
		}
		return text
	case st.Grantee != "":
		return fmt.Sprintf("granted to %s since %s", who(st.Grantee, st.Via), since(st.Since))
	}
	return printable(st.Status)
}

// howText says how the token came to whoever entered.
func howText(how string) string {
	return map[string]string{
		"root":     "in its turn",
		"turn":     "in its turn",
		"direct":   "in its turn, straight from the holder before (Direct)",
		"passing":  "out of turn, while the token passed it on the way to another (Use)",
		"retained": "again, with the token that it had kept (Retain)",
		"resumed":  "before the root was restarted",
	}[how]
}

func writeDecision(w io.Writer, d *qosmutex.Decision) error {
	got := who(d.Granted.Participant, d.Granted.Via)
	text := "The latest grant, " + since(d.At) + ": to " + got
	if how := howText(d.How); how != "" {
		text += ", " + how
	}
	others := d.Waiting - 1
	switch {
	case others <= 0 && len(d.Queue) == 0:
		fmt.Fprintf(w, "%s. Nobody else waited.\n", text)
		return nil
	case d.Place == 1:
		fmt.Fprintf(w, "%s. It came first of %d (models %s):\n", text, d.Waiting, printable(d.Models))
	case d.Place > 1:
		fmt.Fprintf(w, "%s. It was at place %d of %d (models %s):\n", text, d.Place, d.Waiting, printable(d.Models))
	default:
		fmt.Fprintf(w, "%s, while %d waited (models %s):\n", text, d.Waiting, printable(d.Models))
	}
	if d.Outdated {
		fmt.Fprintln(w, "The token went on before a change of the order had come to the holder.")
	}
	return writeWaiters(w, d.Queue, d.Waiting)
}

// writeWaiters lists requests in the order of service, and what puts each behind the one
// before it.
func writeWaiters(w io.Writer, queue []qosmutex.Waiter, all int) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "  PLACE\tPARTICIPANT\tPRIORITY\tCLOCK\tBEHIND THE ONE BEFORE BECAUSE")
	for i := range queue {
		q := &queue[i]
		clock := "-"
		if q.Clock != 0 {
			clock = strconv.FormatUint(q.Clock, 10)
		}
		fmt.Fprintf(t, "  %d\t%s\t%d\t%s\t%s\n", i+1, who(q.Participant, q.Via), q.Priority, clock, reason(q))
	}
	if more := all - len(queue); more > 0 {
		fmt.Fprintf(t, "  \tand %d more\t\t\t\n", more)
	}
	return t.Flush()
}

// reason is why a request waits where it does.
func reason(q *qosmutex.Waiter) string {
	why := map[string]string{
		"priority": "it is less important",
		"clock":    "its turn comes later",
		"patience": "nobody may go before that one any more",
		"arrival":  "it came to the root later",
		"level":    "it is less important, or has waited for fewer",
		"deadline": "its deadline is later",
	}[q.By]
	var more []string
	if why != "" {
		more = append(more, why)
	}
	if q.Any {
		more = append(more, "any resource will do")
	}
	if q.Passed {
		more = append(more, "passed over: nothing was heard of it lately")
	}
	switch {
	case q.Exhausted:
		more = append(more, "none that came later goes before it")
	case q.Patience > 0:
		more = append(more, fmt.Sprintf("%d that came later may go before it", q.Patience))
	}
	return strings.Join(more, "; ")
}
