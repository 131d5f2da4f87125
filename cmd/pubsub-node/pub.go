package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"padme/internal/wait"
	"padme/pubsub"
)

// pubFlags are the flags of `pubsub-node pub`.
type pubFlags struct {
	key     string
	file    string
	rate    float64
	count   int
	readers int
	bounded bool // --timeout was given: it bounds the wait for readers, too

	mqtt   bool
	qos    int
	retain bool
}

func newPub(s *session) *cobra.Command {
	f := &pubFlags{}
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE]",
		Short: "Publish JSON samples",
		Long: `pub writes MESSAGE, a JSON value, as a sample of TOPIC, or each line of --file, or
of standard input when MESSAGE is - or left out. It ends when every subscriber that
is there has acknowledged every sample, and fails if one does not within --timeout.
It names subscribers of another type, or that ask for a quality of service which it does
not offer: they get nothing. With --wait-matching it waits for subscribers to come, and
says so after a second; a --timeout that is given bounds that as well. A subscriber that
comes while it runs gets the last 1000 samples of each --key, too.

With --mqtt TOPIC is an MQTT topic of any program, such as sensors/roof, and MESSAGE or
each line is published there as it is, JSON or not, with --qos and --retain as MQTT has
them. It ends when the broker has everything. An empty MESSAGE with --retain clears what
the broker retains. A broker does not tell who may not write a topic.

Exit codes: 0 written and acknowledged, 124 not acknowledged in time, or subscribers did
not come within the --timeout that was given, and those of
"pubsub-node lock --help".`,
		Example: `  pubsub-node pub weather '{"celsius": 21}'
  pubsub-node pub weather '{"celsius": 21}' --key roof --rate 2 --count 10
  pubsub-node pub weather --file day.json --rate 10 --wait-matching 1
  tail -f log.json | pubsub-node pub log
  pubsub-node pub --mqtt sensors/roof/celsius 21.5 --qos 1 --retain`,
		Args: argCount(1, 2, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.bounded = cmd.Flags().Changed("timeout")
			if err := f.checkMQTT(cmd); err != nil {
				return err
			}
			if !f.mqtt {
				if err := checkPubTopic(args[0]); err != nil {
					return err
				}
			}
			samples, end, err := f.samples(args[1:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			defer end()
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			if f.mqtt {
				return f.runMQTT(ctx, s, args[0], samples)
			}
			return f.run(ctx, s, args[0], samples)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.key, "key", "default", "`name` of the instance that the samples belong to")
	fs.Float64Var(&f.rate, "rate", 0, "samples per second, as a `number` (default: as fast as they come)")
	fs.IntVar(&f.count, "count", 1, "`number` of times that MESSAGE is written")
	fs.StringVar(&f.file, "file", "", "`name` of a file whose lines are written, one JSON value each")
	fs.IntVar(&f.readers, "wait-matching", 0, "`number` of subscribers to wait for before writing, also called --readers")
	fs.BoolVar(&f.mqtt, "mqtt", false, "TOPIC is an MQTT topic of any program, and payloads are as given")
	fs.IntVar(&f.qos, "qos", 0, "of MQTT, with --mqtt: 0 at most once, 1 at least once")
	fs.BoolVar(&f.retain, "retain", false, "with --mqtt: the broker keeps the last message for subscribers to come")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "readers" {
			name = "wait-matching"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// checkPubTopic refuses what is not the name of one topic.
func checkPubTopic(name string) error {
	if pubsub.HasWildcard(name) {
		return usageError("topic %q has a wildcard, and a sample is of one topic: name it, or give --mqtt for topics of other programs", name)
	}
	return checkTopicName(name)
}

// These errors are completed with what is not.
var (
	errNotJSON = errors.New("the message is not JSON: a text needs quotes of its own, as in '\"text\"'")
	errNotUTF8 = errors.New("the message is not UTF-8, which JSON must be: convert it, for example by \"iconv -t UTF-8\"")
)

// checkJSON refuses what is no JSON, or would be none for other programs.
func checkJSON(text []byte) error {
	switch {
	case !utf8.Valid(text):
		return errNotUTF8
	case !json.Valid(text):
		return errNotJSON
	}
	return nil
}

// byteOrderMark begins the files of some editors, and is no part of their text.
var byteOrderMark = []byte("\uFEFF")

// samples returns what yields one sample after the other, io.EOF at the end, and
// what to call afterwards.
func (f *pubFlags) samples(message []string, stdin io.Reader) (next func() (json.RawMessage, error), end func(), err error) {
	if err := f.check(message); err != nil {
		return nil, nil, err
	}
	end = func() {}
	switch {
	case f.file != "":
		file, err := os.Open(f.file)
		if err != nil {
			return nil, nil, fmt.Errorf("--file: %w", err)
		}
		return f.lines(f.file, file), func() { _ = file.Close() }, nil
	case len(message) == 0 || message[0] == "-":
		return f.lines("standard input", stdin), end, nil
	}
	value, left := json.RawMessage(message[0]), f.count
	return func() (json.RawMessage, error) {
		if left == 0 {
			return nil, io.EOF
		}
		left--
		return value, nil
	}, end, nil
}

func (f *pubFlags) check(message []string) error {
	literal := len(message) > 0 && message[0] != "-"
	switch {
	case f.rate < 0 || f.rate > 1e6 || f.rate != f.rate:
		return usageError("--rate %v is not between 0 and 1000000", f.rate)
	case f.count < 1 || f.readers < 0:
		return usageError("--count must be positive and --wait-matching not negative")
	case f.file != "" && len(message) > 0:
		return usageError("--file and MESSAGE contradict each other: give one of them")
	case !literal && f.count != 1:
		return usageError("--count is for a MESSAGE on the command line")
	}
	if literal && !f.mqtt {
		if err := checkJSON([]byte(message[0])); err != nil {
			return usageError("%w; got %.40q", err, message[0])
		}
	}
	return nil
}

// lines reads one JSON value per line, or with --mqtt any text, of what name names; empty
// lines are skipped.
func (f *pubFlags) lines(name string, r io.Reader) func() (json.RawMessage, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, pubsub.MaxPayload)
	number := 0
	return func() (json.RawMessage, error) {
		for in.Scan() {
			line := in.Bytes()
			if number++; number == 1 && !f.mqtt {
				line = bytes.TrimPrefix(line, byteOrderMark)
			}
			if len(line) == 0 {
				continue
			}
			if !f.mqtt {
				if err := checkJSON(line); err != nil {
					return nil, fmt.Errorf("%s, line %d: %w", name, number, err)
				}
			}
			return bytes.Clone(line), nil
		}
		if errors.Is(in.Err(), bufio.ErrTooLong) {
			return nil, fmt.Errorf("%s, line %d: longer than %d bytes", name, number+1, pubsub.MaxPayload)
		}
		if in.Err() != nil {
			return nil, in.Err()
		}
		return nil, io.EOF
	}
}

func (f *pubFlags) run(ctx context.Context, s *session, name string, samples func() (json.RawMessage, error)) error {
	return f.publish(ctx, s, name, func(w *pubsub.Writer[document]) error {
		return f.each(ctx, samples, func(value json.RawMessage) error { return w.Write(ctx, document{Key: f.key, Value: value}) })
	})
}

// publish makes a writer, has write use it, and waits for acknowledgements.
func (f *pubFlags) publish(ctx context.Context, s *session, name string, write func(*pubsub.Writer[document]) error) error {
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
	w, err := pubsub.NewWriter(setup, topic, pubsub.WithQoS(deliverOn()))
	if err != nil {
		return endedBy(ctx, err)
	}
	defer inBackground(ctx, func(ctx context.Context) { tellUnreached(ctx, w, name) })()
	if err := f.awaitReaders(ctx, p, w, s, name); err != nil {
		return endedBy(ctx, err)
	}
	if err := write(w); err != nil {
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

// each gives one sample after the other to write, as often as --rate says.
func (f *pubFlags) each(ctx context.Context, samples func() (json.RawMessage, error), write func(json.RawMessage) error) error {
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
			if !wait.Sleep(ctx, time.Until(due)) {
				return ctx.Err()
			}
			due = due.Add(time.Duration(float64(time.Second) / f.rate))
		}
		if err := write(value); err != nil {
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
