package pubsub

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wait"
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

func (p *Participant) askFilter() string { return p.root + "/ask/+" }

// subscribeAsk listens to questions. A broker whose rules do not let us only makes
// us harder to find.
func (p *Participant) subscribeAsk(ctx context.Context, k *connection.Link) error {
	err := connection.SubscribeAll(ctx, k, []string{p.askFilter()}, 0)
	if errors.Is(err, ErrRefused) {
		p.log.Warn("others may not find this participant: allow it to read the topic in the broker's access rules", "filter", p.askFilter(), "error", err)
		return nil
	}
	return err
}

// ask asks everybody who is there. Offline nothing is asked: reconnecting does.
func (p *Participant) ask() { _ = p.put(connection.Packet{Topic: p.root + "/ask/" + p.level, QoS: 1}) }

// askTopic asks who else is there with a topic.
func (p *Participant) askTopic(topic string) {
	if level, err := EncodeLevel(topic); err == nil {
		_ = p.put(connection.Packet{Topic: p.root + "/ep/" + level + "/" + p.level + "/" + question, QoS: 1})
	}
}

// askUnlessTold puts a question if the broker is not found to return, for a wildcard,
// what it retains.
func (p *Participant) askUnlessTold(ask func()) {
	if p.unannounced || p.recalls.Load() { // to the one nobody could answer
		return
	}
	p.start(func() {
		if wait.Sleep(p.ctx, recallWait) && !p.recalls.Load() {
			ask()
		}
	})
}

// askOne asks a participant for what it has of a topic.
func (p *Participant) askOne(to, topic string) {
	who := wire.Envelope{Kind: wire.KindWho, Epoch: p.incarnation, Body: []byte(topic)}
	p.message(to, wire.Append(nil, &who))
}

const (
	// recallWait is how long what a broker retains may take to come once a subscription
	// is granted.
	recallWait = 300 * time.Millisecond
	// answerPause is the least time between two answers to the same question: an
	// answer is a letter for each endpoint, through the queue that lock messages
	// wait in, and whoever can ask can ask often.
	answerPause = 250 * time.Millisecond
	// maxAnswers bounds the questions of which it is remembered that they were answered.
	maxAnswers = 4096
)

// answers are the questions that were answered within answerPause, and whether they were
// put again since.
type answers struct {
	mu    sync.Mutex
	again map[asking]bool
}

type asking struct{ from, topic string }

// first reports whether a question is to be answered at once. If not, it is answered
// when the pause is over.
func (a *answers) first(to asking) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, lately := a.again[to]
	switch {
	case lately:
		a.again[to] = true
		return false
	case len(a.again) >= maxAnswers: // who needs us asks again
		return false
	case a.again == nil:
		a.again = map[asking]bool{}
	}
	a.again[to] = false
	return true
}

// over follows a pause; it reports whether somebody has asked again in it.
func (a *answers) over(to asking) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.again[to]
	if a.again[to] = false; !again {
		delete(a.again, to)
	}
	return again
}

// asked handles a question for the endpoints of a topic, or of all if that is "", our
// own question too: our readers match our writers. It runs on the goroutine that reads.
func (p *Participant) asked(from, topic string) {
	q := asking{from, topic}
	if p.unannounced || len(topic) > wire.MaxName || !p.answers.first(q) {
		return
	}
	p.answer(q)
	p.start(func() {
		for wait.Sleep(p.ctx, answerPause) && p.answers.over(q) {
			p.answer(q)
		}
	})
}

func (p *Participant) answer(q asking) {
	if birth, alive := p.self.presence(); alive {
		p.exchange.tell(q.from, q.topic, birth)
	}
}

// tell sends one announcement. What is lost is asked for again by whoever needs it.
func (p *Participant) tell(to string, a wire.Announcement) { p.message(to, a.Encode(p.incarnation)) }

// told handles an announcement letter as if it had come from the retained topic.
func (p *Participant) told(from string, e *wire.Envelope) {
	a, err := wire.ParseAnnouncement(e.Body)
	level, _ := EncodeLevel(from)
	switch {
	case err != nil:
		p.drop(drop.Malformed, "announcement of "+from, err)
	case a.Endpoint == "" && (p.peers.following.Load() || p.exchange.watches(from)):
		p.peers.receive("presence/"+level, a.Payload, false)
		if a.Listed {
			p.exchange.closedBut(from, e.Epoch, a.Topic, a.All)
		}
	case a.Endpoint == "": // we did not ask
		p.counters.drop(drop.Kind)
	case strings.Contains(a.Endpoint, "/"):
		p.counters.drop(drop.Topic)
	default:
		p.exchange.learn(from, a.Topic, a.Endpoint, a.Payload)
	}
}
