package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"padme/pubsub"
)

// checkPlain refuses flags that mean nothing with --mqtt; others are those of the verb.
func checkPlain(cmd *cobra.Command, mqtt bool, others ...string) error {
	if !mqtt {
		return nil
	}
	for _, name := range append(others, "domain", "prefix") {
		if cmd.Flags().Changed(name) {
			return usageError("--%s is for samples: an MQTT topic (--mqtt) has none", name)
		}
	}
	return nil
}

// checkMQTT refuses what goes with --mqtt only, and what does not go with it.
func (f *pubFlags) checkMQTT(cmd *cobra.Command) error {
	if f.qos < 0 || f.qos > 1 {
		return usageError("--qos %d: give 0 or 1; 2 is not offered", f.qos)
	}
	for name, instead := range map[string]string{
		"qos":    "samples of a topic are acknowledged by each subscriber",
		"retain": "a topic's samples are kept by their writer for as long as it runs",
	} {
		if cmd.Flags().Changed(name) && !f.mqtt {
			return usageError("--%s is for --mqtt: %s", name, instead)
		}
	}
	return checkPlain(cmd, f.mqtt, "key", "wait-matching")
}

// runMQTT is `pub --mqtt`.
func (f *pubFlags) runMQTT(ctx context.Context, s *session, topic string, payloads func() (json.RawMessage, error)) error {
	c, err := s.connectPlain(ctx)
	if err != nil {
		return err
	}
	defer closePlain(c)
	err = f.each(ctx, payloads, func(payload json.RawMessage) error {
		return c.Publish(ctx, topic, payload, byte(f.qos), f.retain)
	})
	if err == nil {
		flushing, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		err = c.Flush(flushing)
	}
	switch {
	case errors.Is(err, pubsub.ErrOffline):
		return fmt.Errorf("%w: the connection to %s was lost, and with it perhaps messages: publish them again", pubsub.ErrUnreachable, s.broker)
	case errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitTimeout, fmt.Errorf("the broker did not acknowledge within %v: look into its log or give a longer --timeout", s.timeout)}
	}
	return endedBy(ctx, err)
}

// plainLine is one line of `sub --mqtt --json`: the payload is value if it is JSON, else
// text if it is UTF-8, else body.
type plainLine struct {
	Topic    string          `json:"topic"`
	Value    json.RawMessage `json:"value,omitempty"`
	Text     string          `json:"text,omitempty"`
	Body     []byte          `json:"body,omitempty"`
	Retained bool            `json:"retained,omitempty"`
	Received time.Time       `json:"received"`
}

// runMQTT is `sub --mqtt`.
func (f *subFlags) runMQTT(ctx context.Context, s *session, filter string, out io.Writer) error {
	c, err := s.connectPlain(ctx)
	if err != nil {
		return err
	}
	defer closePlain(c)
	incoming := make(chan pubsub.PlainMessage, maxUnseen)
	var missed atomic.Uint64
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	stop, err := c.Subscribe(setup, filter, func(m pubsub.PlainMessage) {
		select {
		case incoming <- m:
		default:
			missed.Add(1)
		}
	})
	if err != nil {
		return endedBy(ctx, err)
	}
	defer stop()
	for seen := 0; f.count == 0 || seen < f.count; seen++ {
		select {
		case <-ctx.Done():
			return endOfStream(ctx)
		case <-c.Done():
			return c.Err()
		case m := <-incoming:
			if n := missed.Swap(0); n > 0 {
				fmt.Fprintf(os.Stderr, "pubsub-node: %d messages came too fast and were missed\n", n)
			}
			if err := f.writePlain(out, &m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *subFlags) writePlain(out io.Writer, m *pubsub.PlainMessage) error {
	now := time.Now()
	if f.json {
		return writeJSON(out, []plainLine{plainLineOf(m, now)})
	}
	text := string(m.Payload)
	var compact bytes.Buffer
	if json.Compact(&compact, m.Payload) == nil { // on one line
		text = compact.String()
	}
	if f.info {
		text = strings.Join([]string{now.Local().Format("15:04:05.000"), m.Topic, text}, " ")
	}
	_, err := fmt.Fprintln(out, printable(text))
	return err
}

func plainLineOf(m *pubsub.PlainMessage, at time.Time) plainLine {
	l := plainLine{Topic: m.Topic, Retained: m.Retained, Received: at}
	switch {
	case !utf8.Valid(m.Payload):
		l.Body = m.Payload
	case json.Valid(m.Payload):
		l.Value = m.Payload
	default:
		l.Text = string(m.Payload)
	}
	return l
}
