package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/pubsub"
)

// loadTopic is what perf pub writes and perf sub reads.
const loadTopic = "perf-load"

// maxTaken is more than a reader holds.
const maxTaken = 1 << 20

// loadFlags are the flags of `pubsub-node perf pub|sub`.
type loadFlags struct {
	perfFlags
	during   time.Duration
	coalesce time.Duration
	readers  int
}

// loadLine is the line of `perf pub|sub --json`.
type loadLine struct {
	Samples int     `json:"samples"`
	Bytes   int     `json:"bytes"` // of payload
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"` // samples a second
	Lost    uint64  `json:"lost"`
}

func newPerfPub(s *session) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "pub",
		Short: "Write as fast as readers take it",
		Long: `pub writes samples for "perf sub" as fast as it can for --for, and prints how many. A
reliable one counts until all readers have acknowledged.

Exit codes: 124 readers did not come, or did not acknowledge within --timeout, and those
of "pubsub-node lock --help".`,
		Example: "  pubsub-node perf sub             # in another terminal\n  pubsub-node perf pub --size 1000 --for 10s --wait-matching 1\n  pubsub-node perf pub --coalesce 2ms --wait-matching 1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.during <= 0 || f.readers < 0 || f.size < 0 || f.size > pubsub.MaxPayload/2 {
				return usageError("--for must be positive, --wait-matching not negative, --size 0 to %d", pubsub.MaxPayload/2)
			}
			return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
				return endedBy(ctx, f.pub(ctx, s, p, cmd.OutOrStdout()))
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().IntVar(&f.size, "size", 100, "`bytes` of payload")
	flags.DurationVar(cmd.Flags(), &f.during, "for", "", 5*time.Second, "how long to write")
	flags.DurationVar(cmd.Flags(), &f.coalesce, "coalesce", "", 0, "let samples gather for up to this long, at most 50ms, and go together (default: each alone)")
	cmd.Flags().IntVar(&f.readers, "wait-matching", 0, "`number` of readers to wait for before writing, within --timeout")
	return cmd
}

func newPerfSub(s *session) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "sub",
		Short: "Count what perf pub writes",
		Long: `sub takes what "perf pub" writes until it is interrupted or has --count samples, and
prints how many came how fast, from the first to the last.

Exit codes: 1 nothing came, and those of "pubsub-node lock --help".`,
		Example: "  pubsub-node perf sub --count 10000 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.count < 0 {
				return usageError("--count %d is negative", f.count)
			}
			return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
				return f.sub(ctx, s, p, cmd.OutOrStdout())
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().IntVar(&f.count, "count", 0, "end after this `number` of samples (default: when interrupted)")
	return cmd
}

func (f *loadFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.bestEffort, "best-effort", "b", false, "best effort instead of reliable, on both sides")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object")
}

func (f *loadFlags) pub(ctx context.Context, s *session, p *pubsub.Participant, out io.Writer) error {
	topic, err := pubsub.NewTopic[perfSample](p, loadTopic)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	w, err := pubsub.NewWriter(setup, topic, f.qos(), pubsub.WithCoalescing(f.coalesce))
	if err == nil {
		err = w.WaitMatched(setup, f.readers)
	}
	if err != nil {
		return err
	}
	l, begun := loadLine{}, time.Now()
	v := perfSample{From: p.ID(), Payload: make([]byte, f.size)}
	for time.Since(begun) < f.during {
		v.Number++
		if err := w.Write(ctx, v); errors.Is(err, pubsub.ErrBacklog) && f.bestEffort {
			l.Lost++
			continue
		} else if err != nil {
			return err
		}
		l.Samples++
	}
	acking, cancelAcking := context.WithTimeout(ctx, s.timeout)
	defer cancelAcking()
	if err := w.WaitAcked(acking); err != nil {
		return err
	}
	l.Bytes = l.Samples * f.size
	return f.report(out, "wrote", l, time.Since(begun))
}

func (f *loadFlags) sub(ctx context.Context, s *session, p *pubsub.Participant, out io.Writer) error {
	topic, err := pubsub.NewTopic[perfSample](p, loadTopic)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := pubsub.NewReader(setup, topic, f.qos())
	if err != nil {
		return endedBy(ctx, err)
	}
	defer r.Close()
	c := counting{numbers: map[pubsub.GUID]uint64{}}
	for sample, err := range r.Samples(ctx) {
		if err != nil {
			return err
		}
		if c.add(sample); c.Samples == f.count {
			break
		}
	}
	if ctx.Err() != nil {
		if err := endOfStream(ctx); err != nil {
			return err
		}
		for _, sample := range r.Take(maxTaken) { // what has arrived counts, too
			c.add(sample)
		}
	}
	if c.Samples == 0 {
		return errors.New("nothing came: write with \"pubsub-node perf pub\"")
	}
	return f.report(out, "read", c.loadLine, c.last.Sub(c.first))
}

// counting is what perf sub has read.
type counting struct {
	loadLine
	first, last time.Time
	numbers     map[pubsub.GUID]uint64 // the last of each writer
}

func (c *counting) add(s pubsub.Sample[perfSample]) {
	if !s.Info.Valid {
		return
	}
	c.last = s.Info.ReceiveTime
	if c.Samples == 0 {
		c.first = c.last
	}
	c.Samples++
	c.Bytes += len(s.Data.Payload)
	if was := c.numbers[s.Info.Writer]; was > 0 && s.Info.Sequence > was+1 {
		c.Lost += s.Info.Sequence - was - 1
	}
	c.numbers[s.Info.Writer] = s.Info.Sequence
}

func (f *loadFlags) report(out io.Writer, what string, l loadLine, took time.Duration) error {
	l.Seconds = took.Seconds()
	l.Rate = float64(l.Samples) / max(l.Seconds, 1e-9)
	if f.json {
		return writeJSON(out, []loadLine{l})
	}
	_, err := fmt.Fprintf(out, "%s %d samples in %v, %d lost: %.0f/s, %s/s\n", what, l.Samples, took.Round(time.Millisecond), l.Lost, l.Rate, bytesText(float64(l.Bytes)/max(l.Seconds, 1e-9)))
	return err
}
