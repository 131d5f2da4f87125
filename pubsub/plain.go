package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"padme/pubsub/internal/connection"
)

// Plain is a connection to a broker for the topics of other programs, with payloads of any
// kind. It announces nothing, belongs to no participant, and reconnects automatically. All
// methods may be called from several goroutines.
type Plain struct {
	p    *Participant // for its options, servers and end; never announced
	lane *connection.Lane
}

// PlainMessage is a message on a topic of any program.
type PlainMessage struct {
	Topic    string
	Payload  []byte
	Retained bool // it was published before the subscription
}

// ConnectPlain connects to the broker at rawURL as Join does, without joining. It blocks
// until the broker has accepted the connection or ctx ends. The MQTT client id begins with
// id. Of the options, those for connecting and logging have an effect.
//
// Errors wrap ErrInvalid, ErrUnreachable, ErrRefused, after a cancellation context.Canceled
// and its cause, and context.DeadlineExceeded if the deadline had passed before the call.
func ConnectPlain(ctx context.Context, rawURL, id string, opts ...Option) (*Plain, error) {
	p, err := newParticipant(rawURL, id, opts)
	if err != nil {
		return nil, err
	}
	p.metrics = nil // its counters are those of participants
	c := &Plain{p: p, lane: p.newLane("plain", "~x", "", connection.NewQueue())}
	c.lane.Failed = p.mainFailed
	if err := p.begin(ctx, c.lane); err != nil {
		return nil, err
	}
	return c, nil
}

// Publish queues a message for the broker at MQTT QoS 0 or 1; Flush reports when it has
// been sent. An empty payload with retain clears the retained message. Publish blocks while
// many messages wait for the network. Errors: ErrInvalid, ErrTooLarge, ErrOffline,
// ErrClosed; nothing was published then. A broker does not report to MQTT 3.1.1 clients
// that they may not write to a topic.
func (c *Plain) Publish(ctx context.Context, topic string, payload []byte, qos byte, retain bool) error {
	if err := c.made(); err != nil {
		return err
	}
	if err := checkTopicName(topic); err != nil {
		return err
	}
	if qos > 1 {
		return fmt.Errorf("%w: QoS %d: give 0 or 1", ErrInvalid, qos)
	}
	if err := checkPayload(payload); err != nil {
		return err
	}
	p := connection.Packet{Topic: topic, Payload: bytes.Clone(payload), QoS: qos, Retain: retain}
	for {
		if err := c.p.Err(); err != nil {
			return err
		}
		err := c.lane.Put(p)
		if !errors.Is(err, ErrBacklog) {
			return err
		}
		if err := c.Flush(ctx); err != nil {
			return err
		}
	}
}

// Flush blocks until everything that was published before has been sent to the broker, and
// the messages at QoS 1 are acknowledged. ErrOffline says that the connection was lost
// first, possibly with some of them.
func (c *Plain) Flush(ctx context.Context) error {
	if err := c.made(); err != nil {
		return err
	}
	ctx, cancel := c.p.while(ctx)
	defer cancel()
	return c.lane.Flush(ctx)
}

// Subscribe calls handler, in order, for messages on the topics that filter matches, as
// reliably as each was published. + stands for a level and a final # for all further
// levels. Subscribe blocks until the broker has granted the subscription; a refusal wraps
// ErrRefused. Retained messages are delivered again after a reconnection.
//
// handler runs on the goroutine that reads from the network and must not block; it owns
// Payload. After stop returns, no new call begins.
func (c *Plain) Subscribe(ctx context.Context, filter string, handler func(PlainMessage)) (stop func(), err error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	if err := needHandler(handler != nil); err != nil {
		return nil, err
	}
	if err := checkTopicFilter(filter); err != nil {
		return nil, err
	}
	ctx, cancel := c.p.while(ctx)
	defer cancel()
	return c.lane.Subscribe(ctx, filter, filter, func(topic string, payload []byte, retained bool) {
		handler(PlainMessage{topic, payload, retained})
	})
}

// Done is closed when the connection has ended for good: by Close, or because the broker
// refuses it.
func (c *Plain) Done() <-chan struct{} {
	if c == nil || c.p == nil {
		return neverJoined().done
	}
	return c.p.done
}

// Err returns nil while the connection lives, then why it ended: ErrClosed after Close,
// or an error that wraps ErrRefused.
func (c *Plain) Err() error {
	if err := c.made(); err != nil {
		return err
	}
	return c.p.Err()
}

// Close disconnects and waits until everything that the connection started has ended, or
// ctx ends. Messages that were published and not flushed may be lost.
func (c *Plain) Close(ctx context.Context) error {
	if c == nil || c.p == nil {
		return nil
	}
	c.p.end(ErrClosed)
	select {
	case <-c.p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pubsub: closing a connection: %w", context.Cause(ctx))
	}
}

// maxTopic bounds a topic name or filter, in bytes (MQTT 3.1.1 §4.7.3).
const maxTopic = 65535

func checkTopicText(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("%w: the MQTT topic is empty", ErrInvalid)
	case len(topic) > maxTopic:
		return fmt.Errorf("%w: an MQTT topic of %d bytes, the most is %d", ErrInvalid, len(topic), maxTopic)
	case !utf8.ValidString(topic) || strings.ContainsRune(topic, 0):
		return fmt.Errorf("%w: the MQTT topic %q is not UTF-8 without NUL", ErrInvalid, topic)
	}
	return nil
}

func checkTopicName(topic string) error {
	if err := checkTopicText(topic); err != nil {
		return err
	}
	if strings.ContainsAny(topic, "+#") {
		return fmt.Errorf("%w: the MQTT topic %q contains + or #, which stand for others: a message goes to one topic", ErrInvalid, topic)
	}
	return nil
}

func checkTopicFilter(filter string) error {
	if err := checkTopicText(filter); err != nil {
		return err
	}
	levels := strings.Split(filter, "/")
	for i, l := range levels {
		if strings.ContainsAny(l, "+#") && l != "+" && (l != "#" || i < len(levels)-1) {
			return fmt.Errorf("%w: the MQTT filter %q: + fills a level, # the last one", ErrInvalid, filter)
		}
	}
	return nil
}
