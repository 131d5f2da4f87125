package qosmutex

import (
	"context"
	"errors"
	"log/slog"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// inbox handles what came to the participant's inbox. It runs on the goroutine that reads
// from the network: a hop to another one would cost more than the step.
func (t *Topic) inbox(l pubsub.Letter) {
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
		!toAll && (m.To.ID != t.self.ID || m.To.Incarnation != t.self.Incarnation && m.To.Incarnation != 0 && !t.algorithm.Static):
		t.drop(dropAddress, from, nil)
		return
	}
	t.metrics.received[m.Kind]++
	t.met(m.From)
	if m.Kind == protocol.KindOffer || m.Kind == protocol.KindAccept {
		t.heard = true
	}
	if err := t.step(protocol.Input{Kind: protocol.Receive, Message: m}); err != nil {
		t.refusedFrom(m.From, err)
	}
}

// refusedFrom notes that the machine refused a message. Where that is how it will
// be for ever, a person has to know: once for each run of a peer, which is a
// member, or there would be no channel to it.
func (t *Topic) refusedFrom(peer protocol.Node, err error) {
	if !errors.Is(err, static.ErrIncarnation) && !errors.Is(err, static.ErrGivenUp) && !errors.Is(err, static.ErrMembers) {
		t.drop(dropMachine, peer.ID, err)
		return
	}
	t.drop(dropPeer, peer.ID, err)
	if peer.Incarnation > t.warned[peer.ID] {
		t.warned[peer.ID] = peer.Incarnation
		t.log.Warn("a member is not understood and will not be: end all members, then start them again with the same algorithm and members",
			"peer", peer.ID, "error", err)
	}
}

// send puts a message on the way. It never blocks.
func (t *Topic) send(m *protocol.Message) {
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
