package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/pubsub/filter"
)

// subFlags are the flags of `pubsub-node sub`.
type subFlags struct {
	count      int
	once       bool
	json, info bool
	raw, mqtt  bool
	filter     string
}

func newSub(s *session) *cobra.Command {
	f := &subFlags{}
	cmd := &cobra.Command{
		Use:     "sub TOPIC",
		Aliases: []string{"echo"},
		Short:   "Print JSON samples as they come",
		Long: `sub prints the value of each sample of TOPIC on a line of its own until it is
interrupted, first what writers that are still there have written before. With
--info it says before each value when it was written, by whom and for which key;
with --json each line is an object with all that and the value.

How long it waits for a sample has no bound of its own, and --timeout is for connecting
only: "timeout 2 pubsub-node sub TOPIC --once" ends it after two seconds.

It asks for as much as the writers offer that it finds when it starts: reliability,
history, ownership and partitions. Without any it asks for what "pub" offers.

With --raw it prints what passes the broker from now on, of any type and in every
partition, without reliability or history, and no writer learns of it. In the name of a
topic, levels are what stands between slashes: where a level of TOPIC is +, any will do,
and a # at its end is for all that follow. Such a TOPIC is of several topics and so read
as with --raw; --info and --json name the topic of each sample.

With --mqtt TOPIC is an MQTT topic of other programs, or a filter of several, and what
they publish is printed as it is: nothing of topics.md is expected of it.

Exit codes: 0 after --once, --count or INT, and those of "pubsub-node lock --help".`,
		Example: `  pubsub-node sub weather
  pubsub-node sub weather --once --json | jq .value.celsius
  pubsub-node sub weather --filter "key = 'roof' AND value.celsius > 20"
  pubsub-node echo poses --raw --info
  pubsub-node sub 'weather/#' --info
  pubsub-node sub --mqtt 'sensors/+/celsius' --json | jq -c '{topic, value}'`,
		Args: argCount(1, 1, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args[0]); err != nil {
				return err
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, args[0], stream(cmd))
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&f.count, "count", 0, "end after this `number` of samples (default: when interrupted)")
	fs.BoolVar(&f.once, "once", false, "end after the first sample")
	fs.StringVar(&f.filter, "filter", "", "print only samples for which this `expression` over key and value is true")
	fs.BoolVar(&f.raw, "raw", false, "print samples of any type as they pass the broker")
	fs.BoolVar(&f.mqtt, "mqtt", false, "TOPIC is an MQTT topic of any program, with its wildcards")
	fs.BoolVar(&f.json, "json", false, "one JSON object per line, with what --info shows")
	fs.BoolVar(&f.info, "info", false, "show time, writer, number and key before each value")
	return cmd
}

func (f *subFlags) check(cmd *cobra.Command, topic string) error {
	filtered := cmd.Flags().Changed("filter")
	if err := checkPlain(cmd, f.mqtt, "raw", "filter"); err != nil {
		return err
	}
	several := !f.mqtt && pubsub.HasWildcard(topic)
	switch {
	case f.count < 0:
		return usageError("--count %d is negative", f.count)
	case f.once && f.count > 0:
		return usageError("--once and --count contradict each other: give one of them")
	case f.raw && filtered:
		return usageError("--raw and --filter contradict each other: give one of them")
	case several && filtered:
		return usageError("--filter is for one topic, and %q is of several: they are read as with --raw", topic)
	case filtered && f.filter == "":
		return usageError("--filter is empty")
	}
	if f.once {
		f.count = 1
	}
	f.raw = f.raw || several
	if f.mqtt || several {
		return nil
	}
	return checkTopicName(topic)
}

// sampleLine is one line of `sub --json`.
type sampleLine struct {
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"`
	Writer   string          `json:"writer"`
	Sequence uint64          `json:"sequence"`
	Written  time.Time       `json:"written"`
}

func (f *subFlags) run(ctx context.Context, s *session, name string, out io.Writer) error {
	switch {
	case f.mqtt:
		return f.runMQTT(ctx, s, name, out)
	case f.raw:
		return f.runRaw(ctx, s, name, out)
	}
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	r, err := f.open(ctx, s, p, name)
	if err != nil {
		return endedBy(ctx, err)
	}
	defer r.Close()
	defer inBackground(ctx, func(ctx context.Context) { tellProblems(ctx, r, name) })()
	seen := 0
	for sample, err := range r.Samples(ctx) {
		if err != nil {
			return err
		}
		if !sample.Info.Valid {
			continue
		}
		if err := f.write(out, sample); err != nil {
			return err
		}
		if seen++; seen == f.count {
			return nil
		}
	}
	return endOfStream(ctx)
}

// open makes the reader, as the writers that are there would have it.
func (f *subFlags) open(ctx context.Context, s *session, p *pubsub.Participant, name string) (*pubsub.Reader[document], error) {
	topic, err := newDocumentTopic(p, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	endpoints, err := p.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	opts := []pubsub.EndpointOption{pubsub.WithQoS(adapted(endpoints, name))}
	if f.filter != "" {
		x, err := filter.Parse(f.filter)
		if err != nil {
			return nil, err
		}
		opts = append(opts, pubsub.WithExpression(x))
	}
	return pubsub.NewReader(ctx, topic, opts...)
}

func (f *subFlags) write(out io.Writer, sample pubsub.Sample[document]) error {
	d, info := sample.Data, sample.Info
	if f.json {
		return writeJSON(out, []sampleLine{{d.Key, d.Value, info.Writer.Participant, info.Sequence, info.SourceTime}})
	}
	var line bytes.Buffer
	if err := json.Compact(&line, d.Value); err != nil { // no value at all
		line.WriteString("null")
	}
	text := line.String()
	if f.info {
		text = fmt.Sprintf("%s %s#%d %s %s", info.SourceTime.Local().Format("15:04:05.000"), info.Writer.Participant, info.Sequence, d.Key, text)
	}
	_, err := fmt.Fprintln(out, printable(text))
	return err
}

// tellProblems says on standard error why samples do not come or are missing. It returns how
// many writers do not match.
func tellProblems(ctx context.Context, r *pubsub.Reader[document], topic string) (apart int) {
	for event, err := range r.Events(ctx) {
		if err != nil {
			return apart
		}
		text := ""
		switch e := event.(type) {
		case pubsub.IncompatibleQoS:
			apart++
			text = fmt.Sprintf("no samples from %v: it offers less %s than is asked for: start again to ask for no more than it offers", e.Peer, e.Policy)
		case pubsub.InconsistentTopic:
			apart++
			text = fmt.Sprintf("no samples from %v: it writes %s to %q, not JSON documents as \"pubsub-node pub\" does: use --raw", e.Peer, e.Type, topic)
		case pubsub.SampleLost:
			text = fmt.Sprintf("%d samples of %v are lost", e.Count, e.Writer)
		case pubsub.SampleRejected:
			text = fmt.Sprintf("a sample of %v was dropped: %v", e.Writer, e.Err)
		default:
			continue
		}
		fmt.Fprintln(os.Stderr, "pubsub-node: "+printable(text))
	}
	return apart
}
