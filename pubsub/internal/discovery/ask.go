package discovery

import (
	"context"
	"errors"
	"strings"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
)

// Who is there is retained: endpoints where those of the same topic read them, by
// wildcard, and presences, of which a participant reads those that it may match. Not
// every broker returns retained messages for a wildcard (RabbitMQ never does). Whoever
// begins to follow a topic has announced its own endpoint before; if that does not come
// back, nor anything else that was retained, it asks once on the topic, and the others
// there tell it in messages what their retained topics hold. Some brokers may miss
// what is published while a subscription is being made (a NATS cluster), but not for
// both of two endpoints, and who hears from one that it does not know asks its
// participant.

// question is the place of an endpoint's name on which a participant asks who else is
// there with a topic. It is no name of an endpoint.
const question = "ask"

const (
	// recallWait is how long what a broker retains may take to come once a subscription
	// is granted.
	recallWait = 300 * time.Millisecond
	// answerPause is the least time between two answers to the same question: an
	// answer is a message for each endpoint, through the queue that lock messages
	// wait in, and whoever can ask can ask often.
	answerPause = 250 * time.Millisecond
	// maxAnswers bounds the questions of which it is remembered that they were answered.
	maxAnswers = 4096
)

// asking is a question for the endpoints of a topic, or of all if that is "".
type asking struct{ from, topic string }

// Listen has questions arrive. A broker whose rules do not let us only makes
// us harder to find.
func (d *Directory) Listen(ctx context.Context, k *connection.Link) error {
	filter := d.Root + "/ask/+"
	err := connection.SubscribeAll(ctx, k, []string{filter}, 0)
	if errors.Is(err, failure.ErrRefused) {
		d.Log.Warn("others may not find this participant: allow it to read the topic in the broker's access rules", "filter", filter, "error", err)
		return nil
	}
	return err
}

// Ask asks everybody who is there. Offline nothing is asked: reconnecting does.
func (d *Directory) Ask() {
	_ = d.net.Put(connection.Packet{Topic: d.Root + "/ask/" + d.Level, QoS: 1})
}

// askTopic asks who else is there with a topic.
func (d *Directory) askTopic(topic string) {
	_ = d.net.Put(connection.Packet{Topic: d.below(place{topic, question}), QoS: 1})
}

// askUnlessTold puts a question if the broker is not found to return, for a wildcard,
// what it retains. A participant without presence asks nothing: nobody could answer it.
func (d *Directory) askUnlessTold(ask func()) {
	if d.Unannounced {
		return
	}
	d.net.Start(func() {
		if wait.Sleep(d.Context, recallWait) && !d.tells() {
			ask()
		}
	})
}

// tells reports whether the broker is found to return, for a wildcard, what it retains.
func (d *Directory) tells() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recalls
}

// askOne asks a participant for what it has of a topic.
func (d *Directory) askOne(to, topic string) {
	who := wire.Envelope{Kind: wire.KindWho, Epoch: d.Incarnation, Body: []byte(topic)}
	d.net.Post(to, wire.Append(nil, &who))
}

// Asked handles a question for the endpoints of a topic, or of all if that is "", our
// own question too: our readers match our writers.
func (d *Directory) Asked(from, topic string) {
	q := asking{from, topic}
	if d.Unannounced || len(topic) > wire.MaxName || !d.first(q) {
		return
	}
	d.answer(q)
	d.net.Start(func() {
		for wait.Sleep(d.Context, answerPause) && d.askedAgain(q) {
			d.answer(q)
		}
	})
}

// first reports whether a question is to be answered at once. If not, it is answered
// when the pause is over.
func (d *Directory) first(q asking) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, lately := d.answered[q]; lately {
		d.answered[q] = true
		return false
	}
	if len(d.answered) >= maxAnswers { // who needs us asks again
		return false
	}
	d.answered[q] = false
	return true
}

// askedAgain follows a pause; it reports whether somebody has asked again in it.
func (d *Directory) askedAgain(q asking) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.answered[q]
	if d.answered[q] = false; !again {
		delete(d.answered, q)
	}
	return again
}

// answer tells one participant of our endpoints, as they are announced, and of the birth.
// What is lost is asked for again by whoever needs it.
func (d *Directory) answer(q asking) {
	d.mu.Lock()
	defer d.mu.Unlock()
	birth, alive := d.birth()
	if !alive {
		return
	}
	of := d.topics[q.topic]
	if q.topic == "" {
		of = d.local
	}
	tell := func(a wire.Announcement) { d.net.Post(q.from, a.Encode(d.Incarnation)) }
	a := wire.Announcement{Payload: birth, Topic: q.topic, Listed: len(of) <= maxEndpointsOfOne, All: map[string]bool{}}
	for name, l := range of {
		if l.said != nil {
			tell(wire.Announcement{Endpoint: name, Payload: l.said, Topic: l.Topic})
		}
		if a.Listed {
			a.All[name] = true
		}
	}
	tell(a)
}

// Message handles a message to the inbox. It reports false if it is not about discovery.
func (d *Directory) Message(from string, e *wire.Envelope) bool {
	switch {
	case (e.Kind == wire.KindWho || e.Kind == wire.KindHere) && from == d.ID:
		d.signaled(e.Kind, e.Epoch)
	case e.Kind == wire.KindWho:
		d.Asked(from, string(e.Body))
	case e.Kind == wire.KindAnnounce:
		d.told(from, e)
	default:
		return false
	}
	return true
}

// told handles an announcement in the inbox as if it had come from the retained topic.
func (d *Directory) told(from string, e *wire.Envelope) {
	a, err := wire.ParseAnnouncement(e.Body)
	if err != nil {
		d.net.Drop(drop.Malformed, "announcement of "+from, err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case a.Endpoint == "" && d.hears(from):
		d.hear(from, a.Payload, false)
		if a.Listed {
			d.closedBut(from, e.Epoch, a.Topic, a.All)
		}
	case a.Endpoint == "": // we did not ask
		d.net.Drop(drop.Kind, "announcement of "+from, nil)
	case strings.Contains(a.Endpoint, "/"):
		d.net.Drop(drop.Topic, "announcement of "+from, nil)
	default:
		d.learn(from, a.Topic, a.Endpoint, a.Payload)
	}
}

// closedBut forgets endpoints of a participant that has named all which it has in a
// topic, or in all if that is "".
func (d *Directory) closedBut(participant string, incarnation uint64, topic string, all map[string]bool) {
	d.withdrawn(participant, func(at place) bool {
		e := d.peers[participant].endpoints[at]
		return e.Incarnation == incarnation && (topic == "" || at.topic == topic) && !all[at.name]
	})
}
