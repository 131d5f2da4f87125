package papers

import (
	"errors"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// inbox handles a message of another member. It runs on the goroutine that reads from the
// network.
func (t *Topic) inbox(l pubsub.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	m := &t.message
	err := t.decoder.Decode(l.Payload, m)
	if err == nil && m.From.ID != l.From { // the broker vouches for the topic, which names the sender
		err = errors.New("the sender is not the one it names")
	}
	if err == nil {
		err = t.step(protocol.Input{Kind: protocol.Receive, Message: m})
	}
	if err != nil {
		t.drop(l.From, m, err)
	}
}

// drop notes that a message was refused. If all messages of that peer will be, a person has
// to know: once for each run of the peer, which is a member, or there would be no channel
// to it.
func (t *Topic) drop(from string, m *protocol.Message, err error) {
	if !errors.Is(err, static.ErrIncarnation) && !errors.Is(err, static.ErrGivenUp) && !errors.Is(err, static.ErrMembers) {
		t.log.Debug("message dropped", "from", from, "error", err)
		return
	}
	if t.refused[from] != m.From.Incarnation {
		t.refused[from] = m.From.Incarnation
		t.log.Warn("a member is refused from now on: end all members, then start them again with the same algorithm and members",
			"peer", from, "error", err)
	}
}

// send puts a message on the way. It never blocks. What is not sent is repeated.
func (t *Topic) send(m *protocol.Message) {
	t.buffer = protocol.AppendMessage(t.buffer[:0], m)
	if err := t.p.Post(m.To.ID, t.channel, t.buffer); err != nil {
		t.log.Debug("message not sent", "kind", m.Kind, "to", m.To.ID, "error", err)
	}
}
