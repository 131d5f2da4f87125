package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/recording"
	"padme/pubsub"
)

const (
	// maxUnwritten bounds the messages that wait for the disk.
	maxUnwritten = 1 << 16
	// writeEvery is how much of a recording is lost at most if the process is killed.
	writeEvery = time.Second
)

// recorded are the topics of a recording: what `ui` looks at.
var recorded = [][]string{
	{"presence", "+"},
	{"lock", "+", "+", "state"},
	{"lock", "+", "view"},
	{"lock", "+", "member", "+"},
	{"lock", "+", "events"},
	{"node", "#"},
}

func newRecord(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "record FILE",
		Short: "Record what happens to locks, to look at it later",
		Long: `record writes to FILE what is published about locks, their tree and who is
there, until it is interrupted. "ui --replay FILE" shows it as if it happened now.

FILE is a gzip stream of JSON lines, {"ms":…,"levels":[…],"text":…}: zcat FILE | jq
reads it. What came until a second before a kill or a full disk can be replayed.`,
		Example: `  pubsub-node record shift.padme
  pubsub-node ui --replay shift.padme --open
  zcat shift.padme | jq -r 'select(.levels[2] == "events") | .text'`,
		Args: argCount(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return record(ctx, s, args[0], cmd.OutOrStdout())
		},
	}
}

func record(ctx context.Context, s *session, name string, stdout io.Writer) (err error) {
	p, err := s.joinToRead(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return usageError("%s exists: give the recording another name, or remove it", name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w, err := recording.NewWriter(file, s.domain)
	if err != nil {
		return err
	}
	r := &recorder{w: w, incoming: make(chan arrival, maxUnwritten)}
	if err := r.subscribe(ctx, s, p); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "recording to %s\n", name)
	began := time.Now()
	err = r.run(ctx, p)
	if closing := w.Close(); err == nil {
		err = closing
	}
	fmt.Fprintf(stdout, "recorded %d messages in %v\n", r.messages, time.Since(began).Round(time.Second))
	return err
}

// arrival is a message and when it came.
type arrival struct {
	at time.Time
	m  pubsub.RawMessage
}

// recorder writes what comes.
type recorder struct {
	w        *recording.Writer
	incoming chan arrival
	missed   atomic.Int64
	messages int
}

// subscribe asks for all that is recorded. What the broker refuses is told, and left out:
// many show the messages of a node to that node only.
func (r *recorder) subscribe(ctx context.Context, s *session, p *pubsub.Participant) error {
	setup, cancel := context.WithTimeoutCause(ctx, s.timeout, s.joinTimeout())
	defer cancel()
	for _, levels := range recorded {
		_, err := p.SubscribeRaw(setup, pubsub.Main, levels, func(m pubsub.RawMessage) {
			select {
			case r.incoming <- arrival{time.Now(), m}:
			default:
				r.missed.Add(1)
			}
		})
		if errors.Is(err, pubsub.ErrRefused) {
			fmt.Fprintf(os.Stderr, "pubsub-node: the broker does not let this user read %s: it is not recorded\n", strings.Join(levels, "/"))
			continue
		}
		if err != nil {
			return endedBy(ctx, err)
		}
	}
	return nil
}

// run writes until ctx ends, which is no error if a person wanted it.
func (r *recorder) run(ctx context.Context, p *pubsub.Participant) error {
	flush := time.NewTicker(writeEvery)
	defer flush.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return endOfStream(ctx)
		case <-p.Done():
			return p.Err()
		case <-flush.C:
			err = r.w.Flush()
		case a := <-r.incoming:
			err = r.write(&a)
		}
		if err != nil {
			return err
		}
	}
}

func (r *recorder) write(a *arrival) error {
	if n := r.missed.Swap(0); n > 0 {
		fmt.Fprintf(os.Stderr, "pubsub-node: %d messages came too fast and were not recorded\n", n)
		if err := r.w.Missed(a.at, int(n)); err != nil {
			return err
		}
	}
	r.messages++
	return r.w.Write(a.at, a.m.Levels, a.m.Payload, a.m.Retained)
}
