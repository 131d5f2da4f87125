package pubsub

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

// A Message is a message to the inbox of this participant.
type Message struct {
	From        string // id of the sender
	Incarnation uint64 // of the sender
	Channel     string
	Payload     []byte // valid only during the call
}

// inbox routes messages by channel.
type inbox struct {
	prefix string // of the topics of this inbox; the sender follows

	mu       sync.Mutex
	handlers atomic.Pointer[map[string]*inboxHandler] // replaced, never changed

	topics sync.Map // topic by destination, as the encoding costs more than the lookup
	known  atomic.Int32
}

type inboxHandler struct {
	channel string
	handle  func(Message)
}

// maxInboxTopics bounds the remembered topics of destinations.
const maxInboxTopics = 4096

// Send queues a message for the participant "to", to be sent at MQTT QoS 1. As long as the
// connection lasts, messages to the same participant arrive in the order of the calls. Send
// never blocks on the network, and does not use payload after it returns. It does not
// confirm that the message arrives, or that the participant exists.
//
// Errors: ErrOffline (send again after Notify(true)), ErrBacklog, ErrTooLarge, ErrInvalid,
// ErrUnannounced, ErrClosed.
func (p *Participant) Send(to, channel string, payload []byte) error {
	return p.post(to, channel, payload, 1)
}

// Post is Send at MQTT QoS 0, for protocols that acknowledge and retry end to end
// themselves: it costs half the packets. Posts to one participant keep their order among
// each other.
func (p *Participant) Post(to, channel string, payload []byte) error {
	return p.post(to, channel, payload, 0)
}

// Together calls f. What is posted meanwhile waits until f returns, and the messages to
// each participant are sent as one, up to 4 KiB. It suits bursts to few receivers, such as
// the heartbeats of many locks. f must not wait for answers or for the network. At most
// 4096 messages to different participants may wait, as for Participant.Post; further ones
// get ErrBacklog. Calls may overlap.
func (p *Participant) Together(f func()) {
	p = p.orEnded()
	p.queue.Hold()
	defer p.queue.Release()
	f()
}

func (p *Participant) post(to, channel string, payload []byte, qos byte) error {
	p = p.orEnded()
	topic, err := p.inboxTopic(to)
	if err != nil {
		return err
	}
	if err := p.needPresence("a message to another participant"); err != nil {
		return err
	}
	if err := checkChannel(channel); err != nil {
		return err
	}
	if err := checkPayload(payload); err != nil {
		return err
	}
	e := wire.Envelope{Kind: wire.KindMessage, Epoch: p.incarnation, Body: payload}
	e.Options.Channel = []byte(channel)
	b := wire.Append(make([]byte, 0, len(payload)+len(channel)+32), &e)
	if err := p.put(connection.Packet{Topic: topic, Payload: b, QoS: qos, Joins: qos == 0}); err != nil {
		return err
	}
	p.counters.sent.Add(1)
	return nil
}

// put queues on the main lane.
func (p *Participant) put(pk connection.Packet) error {
	if p.ctx.Err() != nil {
		return p.Err()
	}
	return p.main.Put(pk)
}

// message puts a message of discovery or repair on the way to an inbox. What is lost is
// repeated, or asked for again.
func (p *Participant) message(to string, message []byte) {
	if topic, err := p.inboxTopic(to); err == nil {
		_ = p.put(connection.Packet{Topic: topic, Payload: message, QoS: 1})
	}
}

func checkChannel(channel string) error {
	if channel == "" || len(channel) > wire.MaxName {
		return fmt.Errorf("%w: channel %.20q has %d bytes, give 1 to %d", ErrInvalid, channel, len(channel), wire.MaxName)
	}
	return nil
}

func (p *Participant) inboxTopic(to string) (string, error) {
	if t, ok := p.inbox.topics.Load(to); ok {
		return t.(string), nil
	}
	level, err := EncodeLevel(to)
	if err != nil {
		return "", fmt.Errorf("destination: %w", err)
	}
	topic := p.root + "/node/" + level + "/" + p.level
	if p.inbox.known.Add(1) > maxInboxTopics {
		p.inbox.topics.Clear()
		p.inbox.known.Store(1)
	}
	p.inbox.topics.Store(strings.Clone(to), topic)
	return topic, nil
}

// Inbox makes the participant call handler for every message on channel, one at a time and
// in order for each sender. handler runs on the goroutine that reads from the network, and
// messages that this participant posts may wait until it returns, so it must not block. A
// channel has one handler: a second one gets ErrInUse. Messages for a channel without a
// handler are counted and dropped. After stop returns, no new call begins.
func (p *Participant) Inbox(channel string, handler func(Message)) (stop func(), err error) {
	p = p.orEnded()
	if err := needHandler(handler != nil); err != nil {
		return nil, err
	}
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	if err := p.needPresence("an inbox"); err != nil {
		return nil, err
	}
	if p.ctx.Err() != nil {
		return nil, p.Err()
	}
	h := &inboxHandler{channel, handler}
	if !p.inbox.change(func(m map[string]*inboxHandler) bool {
		if m[channel] != nil {
			return false
		}
		m[channel] = h
		return true
	}) {
		return nil, fmt.Errorf("%w: inbox channel %q of participant %q has a handler already: stop that one first", ErrInUse, channel, p.id)
	}
	return func() {
		p.inbox.change(func(m map[string]*inboxHandler) bool {
			if m[channel] == h {
				delete(m, channel)
			}
			return true
		})
	}, nil
}

// change replaces the handlers by a copy which edit has changed, unless it
// returns false.
func (i *inbox) change(edit func(map[string]*inboxHandler) bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := map[string]*inboxHandler{}
	if old := i.handlers.Load(); old != nil {
		maps.Copy(m, *old)
	}
	if !edit(m) {
		return false
	}
	i.handlers.Store(&m)
	return true
}

// arrived handles a message to the inbox; from is the last level of its topic.
func (p *Participant) arrived(from string, payload []byte) {
	id, err := DecodeLevel(from)
	if err != nil {
		p.drop(drop.Topic, p.inbox.prefix+from, err)
		return
	}
	var e wire.Envelope
	rest, err := wire.Next(payload, &e)
	if len(rest) > 0 { // so what answers them goes out together, too
		if len(payload) > connection.MaxJoined || !wire.Joins(payload) {
			p.drop(drop.Malformed, p.inbox.prefix+from, wire.ErrMsgpack)
			return
		}
		p.queue.Hold()
		defer p.queue.Release()
	}
	for err == nil && len(rest) > 0 {
		p.enveloped(id, from, &e)
		if !wire.Joins(rest) {
			err = wire.ErrMsgpack
		} else {
			rest, err = wire.Next(rest, &e)
		}
	}
	if err != nil {
		p.drop(drop.Unparsed(err), p.inbox.prefix+from, err)
		return
	}
	p.enveloped(id, from, &e)
}

// enveloped handles one message to the inbox.
func (p *Participant) enveloped(id, from string, e *wire.Envelope) {
	switch {
	case e.Kind == wire.KindMessage:
		var h *inboxHandler
		if m := p.inbox.handlers.Load(); m != nil {
			h = (*m)[string(e.Options.Channel)]
		}
		if h == nil {
			p.drop(drop.Channel, p.inbox.prefix+from, nil)
			return
		}
		p.counters.received.Add(1)
		h.handle(Message{From: id, Incarnation: e.Epoch, Channel: h.channel, Payload: e.Body})
	case e.Kind == wire.KindEcho && id == p.id:
		p.exchange.echoes.heard("main", string(e.Body))
	case e.Kind == wire.KindRepair:
		p.exchange.repair(id, e)
	case !p.directory.Message(id, e):
		p.drop(drop.Kind, p.inbox.prefix+from, nil)
	}
}
