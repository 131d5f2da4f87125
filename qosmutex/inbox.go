package qosmutex

import (
	"context"
	"log/slog"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// inbox handles what came to the participant's inbox. It runs on the goroutine that reads
// from the network: a hop to another one would cost more than the step.
func (t *Topic) inbox(l pubsub.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if l.From == t.self.ID && len(l.Payload) == barrierSize {
		t.passBarrier(l.Payload)
		return
	}
	t.receive(l.From, l.Payload, false)
}

// joinMessage handles what a participant says to all.
func (t *Topic) joinMessage(m pubsub.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || m.Retained || len(m.Levels) != 4 || m.Levels[3] == t.self.ID {
		return
	}
	t.receive(m.Levels[3], m.Payload, true)
}

// receive checks what the transport knows of a message and hands it to the
// machine. The sender that the broker vouches for stands in the topic.
func (t *Topic) receive(from string, payload []byte, toAll bool) {
	if t.machine == nil {
		return
	}
	m := &t.message
	if err := t.decoder.Decode(payload, m); err != nil {
		t.drop(dropMalformed, from, err)
		return
	}
	switch {
	case m.From.ID != from:
		t.drop(dropSender, from, nil)
		return
	case toAll != m.To.IsZero(),
		!toAll && (m.To.ID != t.self.ID || m.To.Incarnation != t.self.Incarnation && m.To.Incarnation != 0):
		t.drop(dropAddress, from, nil)
		return
	}
	t.metrics.received[m.Kind]++
	t.met(m.From)
	if m.Kind == protocol.KindOffer || m.Kind == protocol.KindAccept {
		t.heard, t.hadRoot = true, true
	}
	if err := t.step(protocol.Input{Kind: protocol.Receive, Message: m}); err != nil {
		t.drop(dropMachine, from, err)
	}
}

// send puts a message on the way. It never blocks.
func (t *Topic) send(m *protocol.Message) {
	if m.Kind == protocol.KindJoin && t.givenTiming {
		m.TTL = t.timing.TTL // for a server that creates the topic because we ask for it
	}
	t.buffer = protocol.AppendMessage(t.buffer[:0], m)
	t.metrics.sent[m.Kind]++
	var err error
	if m.To.IsZero() {
		err = t.p.PublishRaw(pubsub.Main, t.joins, t.buffer, false)
	} else {
		err = t.p.Post(m.To.ID, t.channel, t.buffer)
	}
	if err != nil {
		// Links repeat after a reconnection, datagrams by time.
		t.metrics.unsent++
		t.log.Debug("message not sent", "kind", m.Kind, "to", m.To.ID, "error", err)
	}
}

func (t *Topic) drop(why dropReason, from string, err error) {
	t.metrics.dropped[why]++
	if t.log.Enabled(context.Background(), slog.LevelDebug) {
		t.log.Debug("message dropped", "from", from, "why", dropNames[why], "error", err)
	}
}
