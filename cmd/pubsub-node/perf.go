package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/pubsub"
)

// perfSample is what perf writes.
type perfSample struct {
	From    string `msgpack:"from" pubsub:"key"` // who asked
	Number  uint64 `msgpack:"number"`
	Payload []byte `msgpack:"payload"`
}

// perfFlags are the flags of `pubsub-node perf`.
type perfFlags struct {
	count, size  int
	bestEffort   bool
	patience     time.Duration
	json         bool
	topic, other string // what is written, and what comes back
}

func newPerf(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure latency and throughput",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPerfPing(s), newPerfPong(s), newPerfPub(s), newPerfSub(s))
	return cmd
}

func (f *perfFlags) qos() pubsub.EndpointOption {
	// A measurement on a busy machine takes longer, and does not fail.
	q := pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll, MaxBlocking: time.Minute}
	if f.bestEffort {
		q.Reliability = pubsub.BestEffort
	}
	return pubsub.WithQoS(q)
}

func (f *perfFlags) add(cmd *cobra.Command) {
	f.topic, f.other = "perf-ping", "perf-pong"
	cmd.Flags().BoolVarP(&f.bestEffort, "best-effort", "b", false, "best effort instead of reliable, on both sides")
}

func newPerfPing(s *session) *cobra.Command {
	f := &perfFlags{}
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Measure round trips to a pong",
		Long: `ping writes a sample, waits until a "perf pong" has written it back, and so on, and
prints in the end how long the round trips took.

Exit codes: 1 there is no pong, or none of --count came back, and those of
"pubsub-node lock --help".`,
		Example: `  pubsub-node perf pong            # in another terminal
  pubsub-node perf ping --count 1000 --size 100
  pubsub-node perf ping --json | jq .p99`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.count < 1 || f.size < 0 || f.size > pubsub.MaxPayload/2 || f.patience <= 0 {
				return usageError("--count and --patience must be positive, --size 0 to %d", pubsub.MaxPayload/2)
			}
			return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
				return endedBy(ctx, f.ping(ctx, s, p, cmd.OutOrStdout()))
			})
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.IntVar(&f.count, "count", 100, "`number` of round trips")
	fs.IntVar(&f.size, "size", 0, "`bytes` of payload")
	flags.DurationVar(fs, &f.patience, "patience", "", 2*time.Second, "how long one may take before it counts as lost")
	fs.BoolVar(&f.json, "json", false, "one JSON object; times are in seconds")
	return cmd
}

func newPerfPong(s *session) *cobra.Command {
	f := &perfFlags{}
	cmd := &cobra.Command{
		Use:   "pong",
		Short: "Write back what ping writes",
		Long: `pong writes each sample of "perf ping" back until it is interrupted. One pong serves any
number of pings.

Exit codes: those of "pubsub-node lock --help".`,
		Example: "  pubsub-node perf pong",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			if err := f.pong(ctx, s); ctx.Err() == nil {
				return err
			}
			return endOfStream(ctx)
		},
	}
	f.add(cmd)
	return cmd
}

// ends makes a writer of one topic and a reader of another.
func (f *perfFlags) ends(ctx context.Context, s *session, p *pubsub.Participant, write, read string, opts ...pubsub.EndpointOption) (*pubsub.Writer[perfSample], *pubsub.Reader[perfSample], error) {
	out, err := pubsub.NewTopic[perfSample](p, write)
	if err != nil {
		return nil, nil, err
	}
	in, err := pubsub.NewTopic[perfSample](p, read)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := pubsub.NewReader(ctx, in, append(opts, f.qos())...)
	if err != nil {
		return nil, nil, err
	}
	w, err := pubsub.NewWriter(ctx, out, f.qos())
	return w, r, err
}

func (f *perfFlags) pong(ctx context.Context, s *session) error {
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	w, r, err := f.ends(ctx, s, p, f.other, f.topic)
	if err != nil {
		return err
	}
	for sample, err := range r.Samples(ctx) {
		if err == nil && sample.Info.Valid {
			err = w.Write(ctx, sample.Data)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// perfLine is the line of `perf ping --json`. Times are in seconds.
type perfLine struct {
	Sent int     `json:"sent"`
	Lost int     `json:"lost"`
	Size int     `json:"size"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

func (f *perfFlags) ping(ctx context.Context, s *session, p *pubsub.Participant, out io.Writer) error {
	w, r, err := f.ends(ctx, s, p, f.topic, f.other, pubsub.WithInstance(perfSample{From: p.ID()}))
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err = w.WaitMatched(waiting, 1); err == nil {
		err = r.WaitMatched(waiting, 1)
	}
	switch {
	case err != nil && (ctx.Err() != nil || waiting.Err() == nil):
		return err
	case err != nil:
		return fmt.Errorf("nobody answers within %v: start one with \"pubsub-node perf pong\"", s.timeout)
	}
	var trips []float64
	payload := make([]byte, f.size)
	for n := range f.count {
		took, ok, err := f.trip(ctx, w, r, perfSample{p.ID(), uint64(n), payload})
		if err != nil {
			return err
		}
		if ok {
			trips = append(trips, took.Seconds())
		}
	}
	if len(trips) == 0 {
		return fmt.Errorf("none of %d samples came back", f.count)
	}
	return f.write(out, summary(trips, f.count, f.size))
}

// trip reports false for a sample that did not come back in time.
func (f *perfFlags) trip(ctx context.Context, w *pubsub.Writer[perfSample], r *pubsub.Reader[perfSample], v perfSample) (time.Duration, bool, error) {
	waiting, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	begun := time.Now()
	if err := w.Write(ctx, v); err != nil {
		return 0, false, err
	}
	for sample, err := range r.Samples(waiting) {
		if err != nil {
			return 0, false, err
		}
		if sample.Info.Valid && sample.Data.Number == v.Number {
			return time.Since(begun), true, nil
		}
	}
	return 0, false, ctx.Err()
}

func summary(trips []float64, sent, size int) perfLine {
	slices.Sort(trips)
	at := func(share float64) float64 { return trips[min(int(share*float64(len(trips))), len(trips)-1)] }
	return perfLine{sent, sent - len(trips), size, trips[0], at(0.5), at(0.9), at(0.99), trips[len(trips)-1]}
}

func (f *perfFlags) write(out io.Writer, l perfLine) error {
	if f.json {
		return writeJSON(out, []perfLine{l})
	}
	text := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Microsecond) }
	_, err := fmt.Fprintf(out, "%d round trips of %d bytes, %d lost: min %v  p50 %v  p90 %v  p99 %v  max %v\n",
		l.Sent, l.Size, l.Lost, text(l.Min), text(l.P50), text(l.P90), text(l.P99), text(l.Max))
	return err
}
