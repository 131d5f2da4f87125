package pubsub

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// Who is there is retained, and followed by wildcard. Not every broker returns
// retained messages for a wildcard (RabbitMQ never does), and some may miss what is
// published while a subscription is being made (a NATS cluster). Therefore whoever
// begins to follow others asks once, on R/ask/{P}, and everybody tells it in a
// letter what stands on its retained topics; and who hears from an endpoint that it
// does not know asks its participant.

// An announcement letter tells what stands on R/presence/{P}, or, with the name of
// an endpoint, on R/ep/{P}/{endpoint}, of the sender.
type announcement struct {
	endpoint string // "" for the presence
	payload  []byte // as retained; empty: there is none

	// all are the endpoints that there are, with the presence: who was away when one
	// was closed finds nothing where it stood. listed is false if nothing is said.
	all    map[string]bool
	listed bool
}

func (a *announcement) encode(sender uint64) []byte {
	body := appendBin(appendStr(make([]byte, 0, 16+len(a.endpoint)+len(a.payload)), a.endpoint), a.payload)
	if a.listed {
		body = append(body, 0xdc, byte(len(a.all)>>8), byte(len(a.all)))
		for name := range a.all {
			body = appendStr(body, name)
		}
	}
	e := envelope{kind: kindAnnounce, epoch: sender, body: body}
	return appendEnvelope(make([]byte, 0, len(body)+32), &e)
}

func parseAnnouncement(b []byte) (a announcement, err error) {
	name, b, err := readBytes(b)
	if err != nil || len(name) > maxLevel {
		return a, errMsgpack
	}
	a.endpoint = string(name)
	if a.payload, b, err = readBytes(b); err != nil || len(b) == 0 {
		return a, err
	}
	n, b, err := readArray(b)
	a.all = map[string]bool{}
	for range n {
		if name, b, err = readBytes(b); err != nil {
			return a, err
		}
		a.all[string(name)] = true
	}
	a.listed = err == nil
	return a, err
}

func (p *Participant) askFilter() string { return p.root + "/ask/+" }

// subscribeAsk listens to questions. A broker whose rules do not let us only makes
// us harder to find.
func (p *Participant) subscribeAsk(ctx context.Context, k *link) error {
	err := k.subscribeAtMostOnce(p.askFilter()).wait(ctx)
	for range 10 {
		if packetIDInUse(err) {
			err = k.subscribeAtMostOnce(p.askFilter()).wait(ctx)
		}
	}
	if errors.Is(err, ErrRefused) {
		p.log.Warn("others may not find this participant: allow it to read the topic in the broker's access rules", "filter", p.askFilter(), "error", err)
		return nil
	}
	return err
}

// ask asks everybody who is there. Offline nothing is asked: reconnecting does.
func (p *Participant) ask() {
	_ = p.put(packet{topic: p.root + "/ask/" + p.level, qos: 1})
}

// askOne asks a participant whose letter came from an endpoint that we do not know.
func (p *Participant) askOne(to string) {
	if topic, err := p.inboxTopic(to); err == nil {
		_ = p.put(packet{topic: topic, payload: p.self.signal(kindWho), qos: 1})
	}
}

const (
	// answerPause is the least time between two answers to the same participant: an
	// answer is a letter for each endpoint, through the queue that lock messages
	// wait in, and whoever can ask can ask often.
	answerPause = 250 * time.Millisecond
	// maxAnswers bounds the participants of which it is remembered that they were
	// answered.
	maxAnswers = 4096
)

// answers are who was answered within answerPause, and whether they have asked again
// since.
type answers struct {
	mu    sync.Mutex
	again map[string]bool
}

// first reports whether a question is to be answered at once. If not, it is answered
// when the pause is over.
func (a *answers) first(to string) bool {
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
		a.again = map[string]bool{}
	}
	a.again[to] = false
	return true
}

// over follows a pause; it reports whether somebody has asked again in it.
func (a *answers) over(to string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.again[to]
	if a.again[to] = false; !again {
		delete(a.again, to)
	}
	return again
}

// asked handles a question, our own too: our readers match our writers. It runs on
// the goroutine that reads.
func (p *Participant) asked(to string) {
	if !p.answers.first(to) {
		return
	}
	p.answer(to)
	p.start(func() {
		for sleep(p.ctx, answerPause) && p.answers.over(to) {
			p.answer(to)
		}
	})
}

func (p *Participant) answer(to string) {
	if birth, alive := p.self.presence(); alive {
		p.exchange.tellAll(to, birth)
	}
}

// tell sends one announcement. What is lost is asked for again by whoever needs it.
func (p *Participant) tell(to string, a announcement) {
	if topic, err := p.inboxTopic(to); err == nil {
		_ = p.put(packet{topic: topic, payload: a.encode(p.incarnation), qos: 1})
	}
}

// told handles an announcement letter as if it had come from the retained topic.
func (p *Participant) told(from string, e *envelope) {
	a, err := parseAnnouncement(e.body)
	level, _ := EncodeLevel(from)
	switch {
	case err != nil:
		p.drop(dropMalformed, "announcement of "+from, err)
	case !p.peers.following.Load(): // we did not ask
		p.counters.drop(dropKind)
	case a.endpoint == "":
		p.peers.receive("presence/"+level, a.payload, false)
		if a.listed {
			p.exchange.closedBut(from, e.epoch, a.all)
		}
	case strings.Contains(a.endpoint, "/"):
		p.counters.drop(dropTopic)
	default:
		p.exchange.announced("ep/"+level+"/"+a.endpoint, a.payload, false)
	}
}
