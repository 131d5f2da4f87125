package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"padme/pubsub"
)

func newQoS(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "qos",
		Short: "See why samples do not flow",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newQoSCheck(s))
	return cmd
}

// mismatch is one line of `qos check --json`.
type mismatch struct {
	Topic     string `json:"topic"`
	Writer    string `json:"writer"` // participant/endpoint
	Reader    string `json:"reader"`
	Reason    string `json:"reason"` // the policy, TYPE or PARTITION
	Offered   string `json:"offered"`
	Requested string `json:"requested"`
}

// separate: partitions are there to keep writers and readers apart.
const separate = "PARTITION"

func newQoSCheck(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [TOPIC]",
		Short: "List the writers and readers that do not match, and why",
		Long: `check compares each writer of TOPIC, or of all topics, with each reader of it, and
prints those between which no samples flow, with the first reason: a policy of which
less is offered than requested, TYPE, or PARTITION.

Exit codes: 0 all match, 1 some do not, where PARTITION does not count because it is
there to keep them apart, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node qos check
  pubsub-node qos check weather --json | jq -r .reason`,
		Args: argCount(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, endpoints, err := look(cmd.Context(), s, optional(args))
			if err == nil && len(args) > 0 {
				err = someEndpoint(endpoints, args[0])
			}
			if err != nil {
				return err
			}
			found := mismatches(endpoints)
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), found)
			} else {
				err = writeMismatches(cmd.OutOrStdout(), found)
			}
			for _, m := range found {
				if err == nil && m.Reason != separate {
					return &exitError{code: exitFailure}
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func mismatches(endpoints []pubsub.Announcement) (found []mismatch) {
	for _, w := range endpoints {
		for _, r := range endpoints {
			if w.Kind != "writer" || r.Kind != "reader" || w.Topic != r.Topic {
				continue
			}
			if reason := w.Mismatch(r); reason != "" {
				found = append(found, mismatch{w.Topic, endpointName(w), endpointName(r), reason, sideOf(w, reason), sideOf(r, reason)})
			}
		}
	}
	return found
}

func endpointName(e pubsub.Announcement) string { return e.GUID.Participant + "/" + e.GUID.Endpoint }

// sideOf is what one side says about the reason.
func sideOf(e pubsub.Announcement, reason string) string {
	all := policies(e.QoS)
	value := func(name, otherwise string) string {
		if v, ok := all[name]; ok {
			return v
		}
		return otherwise
	}
	switch reason {
	case "TYPE":
		return e.Type + " as " + string(e.Codec)
	case "RELIABILITY":
		return all["reliability"]
	case "DURABILITY":
		return all["durability"]
	case "DEADLINE":
		return value("deadline", "none")
	case "LIVELINESS":
		return value("liveliness", "automatic") + " " + value("lease", "infinite")
	case "OWNERSHIP":
		return value("ownership", "shared")
	case "DESTINATION_ORDER":
		return value("destination-order", "by-reception")
	}
	return value("partition", "default")
}

func writeMismatches(w io.Writer, found []mismatch) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tWRITER\tREADER\tREASON\tOFFERED\tREQUESTED")
	for _, m := range found {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(m.Topic), printable(m.Writer), printable(m.Reader), m.Reason, printable(m.Offered), printable(m.Requested))
	}
	return t.Flush()
}
