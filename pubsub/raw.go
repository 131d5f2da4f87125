package pubsub

import (
	"context"
	"fmt"
	"strings"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
)

// Lane is one of the connections of a participant.
type Lane int

const (
	// Main carries the inbox, presence, and what SubscribeRaw subscribes to on it. Samples
	// use connections of their own.
	Main Lane = iota
	// Side is a second connection, for publishing only, opened when it is first used. A
	// broker delays the publisher of a topic when one of its subscribers stalls. Messages
	// for watchers use Side, where a stall delays only the next message for watchers.
	Side
	// Crowd is a third connection, for subscribing only. A broker disconnects a subscriber
	// that does not keep up. Messages from many untrusted clients are read on Crowd, at QoS
	// 0.
	Crowd
	// Spare publishes over Main's connection for traffic that will be retried if dropped. It
	// has a queue of its own, with half of the room, and takes turns with Main, so a flood of
	// it neither keeps Send out nor delays it by more than one message each. Subscribing and
	// closing wait for what was published before.
	Spare
)

// PublishRaw publishes payload on the topic below Root with the given unencoded levels. It
// never blocks, and copies payload.
//
// On Main, but not on Spare, messages keep their order with those of Send, if the broker keeps
// it between QoS 0 and 1 (RabbitMQ does not), and the errors are those of Send. Retained
// messages use MQTT QoS 1, others QoS 0, because any client may subscribe to a raw topic, and a
// subscriber that stalls delays a QoS 1 publisher and its inbox. Retry messages that must arrive. On
// Side everything uses QoS 1, and messages wait for a connection as long as necessary: the
// latest retained one of each topic, and the newest thousand of the others. Older ones are
// dropped and counted.
func (p *Participant) PublishRaw(l Lane, levels []string, payload []byte, retain bool) error {
	return p.publishRaw(l, levels, connection.Packet{Payload: payload, Retain: retain, QoS: 1})
}

// SpareQueued returns how many messages wait on Spare for the network. Whoever has its own order
// for what it publishes there can keep most of it back.
func (p *Participant) SpareQueued() int { return p.orEnded().queue.SpareLen() }

// PublishWhile publishes a retained message on Side as PublishRaw does, unless current
// returns false when the message is about to be sent: it may wait long for a connection,
// and may then be outdated. Another goroutine calls current, which must not block. A
// message that was sent to the broker cannot be withdrawn.
func (p *Participant) PublishWhile(current func() bool, levels []string, payload []byte) error {
	return p.publishRaw(Side, levels, connection.Packet{Payload: payload, Retain: true, QoS: 1, Current: current})
}

func (p *Participant) publishRaw(l Lane, levels []string, pk connection.Packet) (err error) {
	p = p.orEnded()
	if pk.Topic, err = level.EncodeTopic(p.root, levels); err != nil {
		return err
	}
	if err := checkPayload(pk.Payload); err != nil {
		return err
	}
	if l == Crowd {
		return fmt.Errorf("%w: Crowd is to subscribe with, publish on Main, Spare or Side", ErrInvalid)
	}
	pk.Payload = append([]byte{}, pk.Payload...)
	lane, err := p.lane(l)
	switch {
	case err != nil:
		return err
	case lane == p.main:
		if !pk.Retain {
			pk.QoS, pk.Spare = 0, l == Spare
		}
		err = p.put(pk)
	default:
		err = lane.Put(pk)
	}
	if err == nil {
		p.counters.published.Add(1)
	}
	return err
}

// RawMessage is a message on a raw topic.
type RawMessage struct {
	Levels   []string // decoded, without the root
	Payload  []byte
	Retained bool // it was published before the subscription
}

// SubscribeRaw calls handler, in order, for messages that arrive over lane l on topics
// below Root that match levels: unencoded names, or "+" for any level and a final "#" for
// all further levels. It blocks until the broker has granted the subscription; a refusal
// wraps ErrRefused. Retained messages are delivered again after a reconnection, and
// possibly when another handler subscribes to the same levels.
//
// handler runs on the goroutine that reads from the lane's connection, or on one of a broker in
// this process, one call at a time, and must not block.
// After stop returns, no new call begins.
func (p *Participant) SubscribeRaw(ctx context.Context, l Lane, levels []string, handler func(RawMessage)) (stop func(), err error) {
	p = p.orEnded()
	if err := needHandler(handler != nil); err != nil {
		return nil, err
	}
	filter, err := level.EncodeFilter(p.root, levels)
	if err != nil {
		return nil, err
	}
	if l == Side || l == Spare {
		return nil, fmt.Errorf("%w: Side and Spare are to publish with, subscribe on Main or Crowd", ErrInvalid)
	}
	lane, err := p.lane(l)
	if err != nil {
		return nil, err
	}
	return p.subscribe(ctx, lane, filter, func(topic string, payload []byte, retained bool) {
		names, err := level.DecodeTopic(topic)
		if err != nil {
			p.drop(drop.Topic, topic, err)
			return
		}
		handler(RawMessage{names, payload, retained})
	})
}

// subscribe is lane.subscribe until ctx or the participant ends.
func (p *Participant) subscribe(ctx context.Context, l *connection.Lane, filter string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error) {
	ctx, cancel := p.while(ctx)
	defer cancel()
	return l.Subscribe(ctx, filter, strings.TrimPrefix(filter, p.root+"/"), handler)
}

// while returns a context that ends with ctx or the participant.
func (p *Participant) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(p.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}
