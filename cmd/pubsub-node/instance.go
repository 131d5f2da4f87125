package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
)

func newInstance(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "instance",
		Short: "See and dispose the instances of a topic",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInstanceList(s), newInstanceGet(s), newInstanceDispose(s))
	return cmd
}

// instanceLine is one line of `instance ls --json`.
type instanceLine struct {
	Key     string          `json:"key"`
	State   string          `json:"state"` // alive, disposed or no-writers
	Value   json.RawMessage `json:"value"` // the last
	Writer  string          `json:"writer"`
	Written time.Time       `json:"written"`
}

const documentsOnly = `It reads JSON documents as "pub" writes them, from writers that are still there and keep
a history.`

func newInstanceList(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "ls TOPIC",
		SuggestFor: []string{listWord},
		Short:      "List the instances of a topic with their last values",
		Long: `ls prints each instance (key) of TOPIC that somebody still writes, with its state, who
wrote it last and when, and the value.

` + documentsOnly + `

Exit codes: 1 TOPIC has no writer or reader, or only writers whose instances cannot be
shown, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node instance ls weather
  pubsub-node instance ls weather --json | jq -r .key`,
		Args: argCount(1, 1, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := s.instances(cmd.Context(), args[0], "")
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			return writeInstances(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func newInstanceGet(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get TOPIC KEY",
		Short: "Print the last value of an instance",
		Long: `get prints the last value of the instance KEY of TOPIC.

` + documentsOnly + `

Exit codes: 1 there is no such instance or it is disposed, and those of
"pubsub-node lock --help".`,
		Example: `  pubsub-node instance get weather roof | jq .celsius`,
		Args:    argCount(2, 2, "TOPIC and KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := s.instances(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if len(all) == 0 || all[0].State == stateNames[pubsub.Disposed] {
				return fmt.Errorf("topic %q has no instance %q: see the others with \"pubsub-node instance ls %s\"", args[0], args[1], args[0])
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(string(all[0].Value)))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, as \"instance ls\" has it")
	return cmd
}

var stateNames = map[pubsub.InstanceState]string{pubsub.Alive: "alive", pubsub.Disposed: "disposed", pubsub.NoWriters: "no-writers"}

// instances reads the last value of each instance of a topic, or of one, sorted.
func (s *session) instances(ctx context.Context, topic, key string) ([]instanceLine, error) {
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(p)
	reading, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	endpoints, err := p.Endpoints(reading)
	if err != nil {
		return nil, endedBy(ctx, err)
	}
	if err := someEndpoint(aliveOf(endpoints, topic), topic); err != nil {
		return nil, err
	}
	r, err := (&subFlags{}).open(ctx, s, p, topic)
	if err != nil {
		return nil, endedBy(ctx, err)
	}
	defer r.Close()
	unread := 0 // writers, of which the reason is told
	stopTelling := inBackground(ctx, func(ctx context.Context) { unread = tellProblems(ctx, r, topic) })
	defer stopTelling()
	latest := map[string]instanceLine{}
	samples := func(ctx context.Context) iter.Seq2[pubsub.Sample[document], error] { return r.Samples(ctx) }
	err = snapshot(ctx, readingOf(p, 2*s.pause(), s.timeout), samples, func(sample pubsub.Sample[document]) {
		i := sample.Info
		line, again := latest[i.Key]
		if key != "" && key != i.Key || !i.Valid && !again {
			return
		}
		if i.Valid {
			line = instanceLine{Key: i.Key, Value: sample.Data.Value, Writer: i.Writer.Participant, Written: i.SourceTime}
		}
		line.State = stateNames[i.State]
		latest[i.Key] = line
	})
	if err != nil {
		return nil, err
	}
	if stopTelling(); unread > 0 && len(latest) == 0 {
		return nil, fmt.Errorf("topic %q has no instance that can be shown: see what is written to it with \"pubsub-node sub %s --raw\"", topic, topic)
	}
	var all []instanceLine
	for _, line := range latest {
		all = append(all, line)
	}
	slices.SortFunc(all, func(a, b instanceLine) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func writeInstances(w io.Writer, all []instanceLine) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tSTATE\tWRITER\tWRITTEN\tVALUE")
	for _, i := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", printable(i.Key), i.State, printable(i.Writer), since(i.Written), printable(string(i.Value)))
	}
	return t.Flush()
}

func newInstanceDispose(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dispose TOPIC KEY",
		Short: "Tell subscribers that an instance is gone",
		Long: `dispose tells the subscribers of TOPIC that the instance KEY is gone, and ends when all
have acknowledged it. Writers may write it again, and those that keep a history go on
giving theirs to subscribers to come.

Exit codes: 0 disposed and acknowledged, 124 not acknowledged within --timeout, and
those of "pubsub-node lock --help".`,
		Example: `  pubsub-node instance dispose weather roof`,
		Args:    argCount(2, 2, "TOPIC and KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			f := &pubFlags{}
			return f.publish(ctx, s, args[0], func(w *pubsub.Writer[document]) error {
				return w.Dispose(ctx, document{Key: args[1]})
			})
		},
	}
	return cmd
}
