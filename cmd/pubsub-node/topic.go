package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"padme/pubsub"
)

func newTopicCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "See topics, and measure what is written to them",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicList(s), newTopicInfo(s), newTopicType(s), newTopicRate(s, hertz()), newTopicRate(s, bandwidth()), newTopicRate(s, delay()))
	return cmd
}

// topicLine is one line of `topic ls --json`.
type topicLine struct {
	Topic   string   `json:"topic"`
	Types   []string `json:"types"`
	Writers int      `json:"writers"`
	Readers int      `json:"readers"`
}

func newTopicList(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{listWord},
		Short:      "List the topics that have a writer or reader",
		Long: `ls prints each topic of the domain with its type and how many writers and readers
it has. More than one type means that not all of them understand each other.

Exit codes: those of "pubsub-node lock --help".`,
		Example: `  pubsub-node topic ls
  pubsub-node topic ls --json | jq -r 'select(.writers == 0).topic'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, endpoints, err := look(cmd.Context(), s, "")
			if err != nil {
				return err
			}
			return writeTopics(cmd.OutOrStdout(), topicLines(endpoints), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// look returns the participants and, of one topic or of all for "", the writers and
// readers of the domain that are alive.
func look(ctx context.Context, s *session, topic string) (map[string]pubsub.Presence, []pubsub.Announcement, error) {
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := s.joinToRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave(p)
	return lookBy(ctx, s, p, topic)
}

func lookBy(ctx context.Context, s *session, p *pubsub.Participant, topic string) (map[string]pubsub.Presence, []pubsub.Announcement, error) {
	known := map[string]pubsub.Presence{}
	var all []pubsub.Announcement
	both, during := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		reading, cancel := context.WithTimeout(during, s.timeout)
		defer cancel()
		all, err = p.Endpoints(reading)
		return err
	})
	both.Go(func() error {
		return snapshot(during, s.reading(p), p.Peers, func(pr pubsub.Presence) { known[pr.ID] = pr })
	})
	if err := both.Wait(); err != nil {
		return nil, nil, endedBy(ctx, err)
	}
	return known, aliveOf(all, topic), nil
}

// aliveOf are those of a topic, or of all for "", that are alive.
func aliveOf(endpoints []pubsub.Announcement, topic string) []pubsub.Announcement {
	return slices.DeleteFunc(endpoints, func(e pubsub.Announcement) bool {
		return !e.Alive || topic != "" && e.Topic != topic
	})
}

func topicLines(endpoints []pubsub.Announcement) (lines []topicLine) {
	for _, e := range endpoints { // sorted by topic
		if len(lines) == 0 || lines[len(lines)-1].Topic != e.Topic {
			lines = append(lines, topicLine{Topic: e.Topic})
		}
		l := &lines[len(lines)-1]
		if !slices.Contains(l.Types, e.Type) {
			l.Types = append(l.Types, e.Type)
		}
		if e.Kind == "writer" {
			l.Writers++
		} else {
			l.Readers++
		}
	}
	return lines
}

func writeTopics(w io.Writer, lines []topicLine, asJSON bool) error {
	if asJSON {
		return writeJSON(w, lines)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tTYPE\tWRITERS\tREADERS")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", printable(l.Topic), printable(strings.Join(l.Types, ",")), l.Writers, l.Readers)
	}
	return t.Flush()
}

// endpointLine is one line of `topic info --json`.
type endpointLine struct {
	Kind        string            `json:"kind"`
	Participant string            `json:"participant"`
	Endpoint    string            `json:"endpoint"`
	Topic       string            `json:"topic"`
	Type        string            `json:"type"`
	Codec       pubsub.Codec      `json:"codec"`
	QoS         map[string]string `json:"qos"`
	Instance    string            `json:"instance,omitempty"`
	UserData    map[string]string `json:"userData,omitempty"`
	TopicData   map[string]string `json:"topicData,omitempty"`
}

func endpointLines(endpoints []pubsub.Announcement) (lines []endpointLine) {
	for _, e := range endpoints {
		lines = append(lines, endpointLine{
			e.Kind, e.GUID.Participant, e.GUID.Endpoint, e.Topic, e.Type, e.Codec, policies(e.QoS), e.Instance, e.UserData, e.TopicData,
		})
	}
	return lines
}

// policies are the announced ones by their names; what has its default is left out,
// but for reliability and durability.
func policies(q pubsub.QoS) map[string]string {
	all := map[string]string{
		"reliability": [...]string{"best-effort", "reliable"}[min(q.Reliability, pubsub.Reliable)],
		"durability":  [...]string{"volatile", "transient-local", "transient", "persistent"}[min(q.Durability, pubsub.Persistent)],
	}
	set := func(name string, there bool, value any) {
		if there {
			all[name] = fmt.Sprint(value)
		}
	}
	set("deadline", q.Deadline != 0, q.Deadline)
	set("liveliness", q.Liveliness != 0, [...]string{"automatic", "manual-by-participant", "manual-by-topic"}[min(q.Liveliness, pubsub.ManualByTopic)])
	set("lease", q.LivelinessLease != 0, q.LivelinessLease)
	set("ownership", q.Exclusive, "exclusive")
	set("strength", q.Strength != 0, q.Strength)
	set("partition", len(q.Partition) > 0, strings.Join(q.Partition, ","))
	set("destination-order", q.BySourceTime, "by-source-time")
	set("type-consistency", q.AllowCompatible, "compatible")
	return all
}

// policyText is policies on one line, the two that are always there first.
func policyText(of map[string]string) string {
	parts := []string{of["reliability"], of["durability"]}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if name != "reliability" && name != "durability" {
			parts = append(parts, name+"="+of[name])
		}
	}
	return strings.Join(parts, " ")
}

func writeEndpoints(w io.Writer, lines []endpointLine) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tPARTICIPANT\tENDPOINT\tTOPIC\tTYPE\tQOS")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Kind, printable(l.Participant), printable(l.Endpoint), printable(l.Topic), printable(l.Type), printable(policyText(l.QoS)))
	}
	return t.Flush()
}

func newTopicInfo(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info TOPIC",
		Short: "Show the writers and readers of a topic with their quality of service",
		Long: `info prints each writer and reader of TOPIC with the policies that it announced:
offered by writers, requested by readers. "qos check" tells which do not match.

Exit codes: 1 TOPIC has no writer or reader, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node topic info weather
  pubsub-node topic info weather --json | jq .qos`,
		Args: argCount(1, 1, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, endpoints, err := look(cmd.Context(), s, args[0])
			if err == nil {
				err = someEndpoint(endpoints, args[0])
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), endpointLines(endpoints))
			}
			return writeEndpoints(cmd.OutOrStdout(), endpointLines(endpoints))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func someEndpoint(endpoints []pubsub.Announcement, topic string) error {
	if len(endpoints) == 0 {
		return fmt.Errorf("topic %q has no writer or reader: see the others with \"pubsub-node topic ls\"", topic)
	}
	return nil
}

func newTopicType(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "type TOPIC",
		Short: "Print the type of a topic",
		Long: `type prints the name of the type of TOPIC's samples in the words of who writes or
reads them, one line for each.

Exit codes: 1 TOPIC has no writer or reader, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node topic type weather`,
		Args:    argCount(1, 1, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, endpoints, err := look(cmd.Context(), s, args[0])
			if err == nil {
				err = someEndpoint(endpoints, args[0])
			}
			if err != nil {
				return err
			}
			lines := topicLines(endpoints)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), lines)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(mapped(lines[0].Types, printable), "\n"))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, as \"topic ls\" has it")
	return cmd
}

func mapped(texts []string, f func(string) string) (out []string) {
	for _, t := range texts {
		out = append(out, f(t))
	}
	return out
}
