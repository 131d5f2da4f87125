package pubsub

import (
	"context"
	"errors"
	"strings"
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
}

func (a *announcement) encode(sender uint64) []byte {
	body := appendBin(appendStr(make([]byte, 0, 16+len(a.endpoint)+len(a.payload)), a.endpoint), a.payload)
	e := envelope{kind: kindAnnounce, epoch: sender, body: body}
	return appendEnvelope(make([]byte, 0, len(body)+32), &e)
}

func parseAnnouncement(b []byte) (a announcement, err error) {
	name, b, err := readBytes(b)
	if err != nil || len(name) > maxLevel {
		return a, errMsgpack
	}
	a.endpoint = string(name)
	a.payload, _, err = readBytes(b)
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

// asked answers a question, our own too: our readers match our writers. It runs on
// the goroutine that reads.
func (p *Participant) asked(to string) {
	if birth, alive := p.self.presence(); alive {
		p.tell(to, announcement{payload: birth})
		p.exchange.tellAll(to)
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
	case strings.Contains(a.endpoint, "/"):
		p.counters.drop(dropTopic)
	default:
		p.exchange.announced("ep/"+level+"/"+a.endpoint, a.payload, false)
	}
}
