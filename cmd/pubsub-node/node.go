package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
)

func newNode(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "See who takes part",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeList(s), newNodeInfo(s))
	return cmd
}

// nodeLine is one line of `node ls --json`.
type nodeLine struct {
	ID          string            `json:"id"`
	Alive       bool              `json:"alive"`
	Since       time.Time         `json:"since"`
	Incarnation uint64            `json:"incarnation,string"`
	UserData    map[string]string `json:"userData,omitempty"`
}

func newNodeList(s *session) *cobra.Command {
	var asJSON, watch, all bool
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{listWord},
		Short:      "List the participants",
		Long: `ls prints the participants of the domain that are alive. Programs that only read, such as
this one, are none. With --watch it goes on and prints every coming and going.`,
		Example: `  pubsub-node node ls
  pubsub-node node ls --watch --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && all {
				return usageError("--watch and --all contradict each other: give one of them")
			}
			return s.whileJoined(cmd.Context(), s.joinToRead, func(ctx context.Context, p *pubsub.Participant) error {
				if watch {
					return watchNodes(ctx, stream(cmd), p, asJSON)
				}
				return listNodes(ctx, cmd.OutOrStdout(), s.reading(p), p, all, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on and print changes until interrupted")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that are dead, as far as the broker remembers them")
	return cmd
}

func listNodes(ctx context.Context, w io.Writer, r reading, p *pubsub.Participant, all, asJSON bool) error {
	known := map[string]pubsub.Presence{}
	if err := snapshot(ctx, r, p.Peers, func(pr pubsub.Presence) { known[pr.ID] = pr }); err != nil {
		return err
	}
	var nodes []nodeLine
	for _, pr := range known {
		if pr.Alive || all {
			nodes = append(nodes, lineOf(pr))
		}
	}
	slices.SortFunc(nodes, func(a, b nodeLine) int { return cmp.Compare(a.ID, b.ID) })
	if asJSON {
		return writeJSON(w, nodes)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tSINCE\tDATA")
	for _, n := range nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printable(n.ID), n.state(), since(n.Since), n.data())
	}
	return t.Flush()
}

func watchNodes(ctx context.Context, w io.Writer, p *pubsub.Participant, asJSON bool) error {
	seen := map[string]bool{}
	for pr, err := range p.Peers(ctx) {
		if err != nil {
			return err
		}
		was := seen[pr.ID]
		if !pr.Alive && !was { // the dead of former days are no news
			continue
		}
		seen[pr.ID] = pr.Alive
		if !pr.Alive {
			delete(seen, pr.ID)
		}
		n := lineOf(pr)
		if asJSON {
			err = writeJSON(w, []any{n})
		} else {
			_, err = fmt.Fprintf(w, "%s %-5s %s %s\n", n.Since.Local().Format(time.TimeOnly), n.state(), printable(n.ID), n.data())
		}
		if err != nil {
			return err
		}
	}
	return endOfStream(ctx)
}

func lineOf(pr pubsub.Presence) nodeLine {
	return nodeLine{ID: pr.ID, Alive: pr.Alive, Since: pr.Since, Incarnation: pr.Incarnation, UserData: pr.UserData}
}

func (n nodeLine) state() string {
	if n.Alive {
		return "alive"
	}
	return "dead"
}

func (n nodeLine) data() string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(n.UserData)) {
		pairs = append(pairs, k+"="+n.UserData[k])
	}
	return printable(strings.Join(pairs, " "))
}
