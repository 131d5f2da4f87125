package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"padme/pubsub"
)

// maxUnseen bounds the samples that wait to be looked at.
const maxUnseen = 4096

// observe yields the samples of a topic as they pass the broker, until ctx ends.
// An error is the last that it yields. What was too fast for it is told on standard
// error.
func observe(ctx context.Context, s *session, p *pubsub.Participant, topic string) iter.Seq2[pubsub.ObservedSample, error] {
	return func(yield func(pubsub.ObservedSample, error) bool) {
		incoming := make(chan pubsub.ObservedSample, maxUnseen)
		var missed atomic.Uint64
		setup, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		stop, err := p.ObserveSamples(setup, topic, func(o pubsub.ObservedSample) {
			select {
			case incoming <- o:
			default:
				missed.Add(1)
			}
		})
		if err != nil {
			yield(pubsub.ObservedSample{}, endedBy(ctx, err))
			return
		}
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.Done():
				yield(pubsub.ObservedSample{}, p.Err())
				return
			case o := <-incoming:
				if n := missed.Swap(0); n > 0 {
					fmt.Fprintf(os.Stderr, "pubsub-node: %d samples came too fast and were missed\n", n)
				}
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// rawLine is one line of `sub --raw --json`. Body is there if the value cannot be
// read.
type rawLine struct {
	Topic     string            `json:"topic"`
	Partition string            `json:"partition"`
	Key       string            `json:"key"`
	Kind      pubsub.SampleKind `json:"kind"`
	Value     json.RawMessage   `json:"value,omitempty"`
	Body      []byte            `json:"body,omitempty"`
	Writer    string            `json:"writer"`
	Endpoint  string            `json:"endpoint"`
	Sequence  uint64            `json:"sequence"`
	Size      int               `json:"size"`
	Written   time.Time         `json:"written"`
	Received  time.Time         `json:"received"`
}

// runRaw is `sub --raw`.
func (f *subFlags) runRaw(ctx context.Context, s *session, name string, out io.Writer) error {
	p, err := s.joinToRead(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	seen, several := 0, pubsub.HasWildcard(name)
	for o, err := range observe(ctx, s, p, name) {
		if err != nil {
			return err
		}
		if o.Kind != pubsub.SampleWritten && !f.json && !f.info {
			continue
		}
		if err := f.writeRaw(out, &o, several); err != nil {
			return err
		}
		if seen++; seen == f.count {
			return nil
		}
	}
	return endOfStream(ctx)
}

func (f *subFlags) writeRaw(out io.Writer, o *pubsub.ObservedSample, several bool) error {
	value, err := o.JSON()
	if f.json {
		line := rawLine{o.Topic, o.Partition, o.Key, o.Kind, value, nil, o.Writer.Participant, o.Writer.Endpoint, o.Sequence, o.Size, o.SourceTime, o.ReceiveTime}
		if err != nil {
			line.Body = o.Body
		}
		return writeJSON(out, []rawLine{line})
	}
	text := string(value)
	if err != nil {
		text = strconv.Quote(string(o.Body))
	}
	if f.info {
		topic := ""
		if several {
			topic = o.Topic + " "
		}
		text = fmt.Sprintf("%s %s/%s#%d %s%s/%s %s %s", o.SourceTime.Local().Format("15:04:05.000"), o.Writer.Participant, o.Writer.Endpoint, o.Sequence, topic, o.Partition, o.Key, o.Kind, text)
	}
	_, err = fmt.Fprintln(out, printable(text))
	return err
}
