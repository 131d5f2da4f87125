package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
)

// pubFlags are the flags of `pubsub-node pub`.
type pubFlags struct {
	key     string
	rate    float64
	count   int
	readers int
}

func newPub(s *session) *cobra.Command {
	f := &pubFlags{}
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE]",
		Short: "Publish JSON samples",
		Long: `pub writes MESSAGE, a JSON value, as a sample of TOPIC, or each line of standard
input when MESSAGE is - or left out. It ends when every subscriber that is there
has acknowledged every sample, and fails if one does not within --timeout.`,
		Example: `  pubsub-node pub weather '{"celsius": 21}'
  pubsub-node pub weather '{"celsius": 21}' --key roof --rate 2 --count 10
  tail -f log.json | pubsub-node pub log`,
		Args: argCount(1, 2, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			samples, err := f.samples(args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, args[0], samples)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.key, "key", "default", "`name` of the instance that the samples belong to")
	fs.Float64Var(&f.rate, "rate", 0, "samples per second, as a `number` (default: as fast as they come)")
	fs.IntVar(&f.count, "count", 1, "`number` of times that MESSAGE is written")
	fs.IntVar(&f.readers, "readers", 0, "`number` of subscribers to wait for before writing")
	return cmd
}

// errNotJSON is completed with what is not.
var errNotJSON = errors.New("the message is not JSON: a text needs quotes of its own, as in '\"text\"'")

// samples returns what yields one sample after the other, io.EOF at the end.
func (f *pubFlags) samples(message []string, stdin io.Reader) (func() (json.RawMessage, error), error) {
	if f.rate < 0 || f.rate > 1e6 || f.rate != f.rate {
		return nil, usageError("--rate %v is not between 0 and 1000000", f.rate)
	}
	if f.count < 1 || f.readers < 0 {
		return nil, usageError("--count must be positive and --readers not negative")
	}
	if len(message) == 0 || message[0] == "-" {
		if f.count != 1 {
			return nil, usageError("--count is for a MESSAGE on the command line")
		}
		return lines(stdin), nil
	}
	value := json.RawMessage(message[0])
	if !json.Valid(value) {
		return nil, usageError("%w; got %.40q", errNotJSON, message[0])
	}
	left := f.count
	return func() (json.RawMessage, error) {
		if left == 0 {
			return nil, io.EOF
		}
		left--
		return value, nil
	}, nil
}

// lines reads one JSON value per line; empty lines are skipped.
func lines(r io.Reader) func() (json.RawMessage, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, pubsub.MaxPayload)
	number := 0
	return func() (json.RawMessage, error) {
		for in.Scan() {
			number++
			if len(in.Bytes()) == 0 {
				continue
			}
			if !json.Valid(in.Bytes()) {
				return nil, fmt.Errorf("standard input, line %d: %w", number, errNotJSON)
			}
			return json.RawMessage(in.Text()), nil
		}
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			return nil, fmt.Errorf("standard input, line %d: longer than %d bytes", number+1, pubsub.MaxPayload)
		}
		if in.Err() != nil {
			return nil, in.Err()
		}
		return nil, io.EOF
	}
}

func (f *pubFlags) run(ctx context.Context, s *session, name string, samples func() (json.RawMessage, error)) error {
	p, err := s.join(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	topic, err := newDocumentTopic(p, name)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	w, err := pubsub.NewWriter(setup, topic, deliverAll())
	if err != nil {
		return endedBy(ctx, err)
	}
	if err := f.awaitReaders(ctx, w, s.pause()); err != nil {
		return endedBy(ctx, err)
	}
	if err := f.write(ctx, w, samples); err != nil {
		return endedBy(ctx, err)
	}
	acking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := w.WaitAcked(acking); err != nil {
		if ctx.Err() == nil && acking.Err() != nil {
			return &exitError{exitTimeout, fmt.Errorf("not every subscriber of %q acknowledged within %v: look after them or give a longer --timeout", name, s.timeout)}
		}
		return endedBy(ctx, err)
	}
	return nil
}

// awaitReaders gives subscribers that are there already the time to answer, or
// waits for as many as --readers says.
func (f *pubFlags) awaitReaders(ctx context.Context, w *pubsub.Writer[document], pause time.Duration) error {
	if f.readers > 0 {
		return w.WaitMatched(ctx, f.readers)
	}
	short, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if err := w.WaitMatched(short, 1); err != nil && short.Err() == nil {
		return err
	}
	return ctx.Err()
}

func (f *pubFlags) write(ctx context.Context, w *pubsub.Writer[document], samples func() (json.RawMessage, error)) error {
	due := time.Now()
	for {
		value, err := next(ctx, samples)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.rate > 0 {
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return ctx.Err()
			}
			due = due.Add(time.Duration(float64(time.Second) / f.rate))
		}
		if err := w.Write(ctx, document{Key: f.key, Value: value}); err != nil {
			return err
		}
	}
}

// next reads a sample. Nothing ends a read from a terminal or pipe, so the
// goroutine is left behind when ctx ends; the process ends soon after.
func next(ctx context.Context, samples func() (json.RawMessage, error)) (json.RawMessage, error) {
	type result struct {
		value json.RawMessage
		err   error
	}
	read := make(chan result, 1)
	go func() {
		value, err := samples()
		read <- result{value, err}
	}()
	select {
	case r := <-read:
		return r.value, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// endedBy prefers the signal that ended ctx to its consequences.
func endedBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.As(cause, new(interrupted)) {
		return cause
	}
	return err
}
