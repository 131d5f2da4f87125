package broker

import (
	"encoding/json"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	// deathLasts is how long the death of a participant stays retained, for those who
	// come and ask. It is far longer than a living one takes to connect again.
	deathLasts = 10 * time.Minute
	sweepEvery = time.Minute
)

// A janitor clears what participants that died have retained about themselves and will
// not clear any more: their deaths, and what they announced. Of those that died while the
// broker was down it tells first that they are dead: no will was published, and whoever
// lives has announced itself anew. It does so in the broker,
// because nobody else may write there, and nobody else can be sure that the participant
// is not just coming back: here no message comes between the look and the clearing.
// Samples stay: their durability says for how long they are kept.
type janitor struct {
	b      *Broker
	guard  *retainGuard
	deaths map[string]death  // by topic
	old    map[string]string // presences by topic that the data directory brought
}

func newJanitor(b *Broker, guard *retainGuard) *janitor {
	j := &janitor{b: b, guard: guard, old: map[string]string{}}
	j.presences(func(topic, _, _, payload string) { j.old[topic] = payload })
	return j
}

// presences calls f for every retained presence.
func (j *janitor) presences(f func(topic, domain, participant, payload string)) {
	acl := j.b.access.acl
	for _, topic := range j.b.access.quota.matching(acl.prefix + "+/presence/+") {
		pk, there := j.b.server.Topics.Retained.Get(topic)
		if l := acl.levels(topic); there && len(l) == 3 {
			f(topic, l[0], l[2], string(pk.Payload))
		}
	}
}

// death is a retained presence, and when it was seen first.
type death struct {
	payload string
	seen    time.Time
}

// life is what presences and announcements say about their participant's connection.
type life struct {
	Alive       bool   `json:"alive"`
	Incarnation uint64 `json:"incarnation,string"`
	Epoch       uint64 `json:"epoch,string"`
}

// after reports whether a is of a later connection than o. Epochs grow over incarnations.
func (a life) after(o life) bool {
	return a.Incarnation > o.Incarnation || a.Incarnation == o.Incarnation && a.Epoch > o.Epoch
}

func (j *janitor) run(stop <-chan struct{}) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			j.sweep(now)
		case <-stop:
			return
		}
	}
}

// sweep clears the deaths that have been there for long enough.
func (j *janitor) sweep(now time.Time) {
	found := map[string]death{}
	j.presences(func(topic, domain, participant, payload string) {
		var is life
		if json.Unmarshal([]byte(payload), &is) != nil || is.Alive && j.old[topic] != payload {
			return
		}
		d, known := j.deaths[topic]
		switch {
		case !known || d.payload != payload:
			found[topic] = death{payload, now}
		case now.Sub(d.seen) < deathLasts:
			found[topic] = d
		case is.Alive:
			j.retainDeath(topic, payload, is, now)
		default:
			j.clear(topic, payload, domain, participant, is)
		}
	})
	j.deaths = found
}

// retainDeath retains the death of a participant in place of a presence, unless something else
// stands there now, and tells it to who is there.
func (j *janitor) retainDeath(topic, payload string, died life, now time.Time) {
	if err := j.replace(topic, payload, died, now); err != nil {
		j.b.access.tell("a death was not told", "", "", "telling that a participant did not come back", "topic", topic, "error", err)
	}
}

func (j *janitor) replace(topic, payload string, died life, now time.Time) error {
	j.guard.tree.Lock()
	defer j.guard.tree.Unlock()
	if now, there := j.b.server.Topics.Retained.Get(topic); !there || string(now.Payload) != payload {
		return nil
	}
	died.Alive = false
	is, err := json.Marshal(struct {
		life
		Since time.Time `json:"since"`
	}{died, now})
	if err != nil {
		return err
	}
	j.retain(topic, is)
	return j.b.server.Publish(topic, is, false, 0)
}

// clear forgets a participant, unless something else than its death stands there now. It
// reports whether it did. Who follows presences hears of it. Announcements go without a
// word: who follows them has forgotten the participant at its death.
func (j *janitor) clear(topic, payload, domain, participant string, died life) bool {
	cleared, err := j.forget(topic, payload, domain, participant, died)
	if err != nil {
		j.b.access.tell("a clearing was not told", "", "", "telling that a presence was cleared", "topic", topic, "error", err)
	}
	return cleared
}

func (j *janitor) forget(topic, payload, domain, participant string, died life) (cleared bool, err error) {
	j.guard.tree.Lock() // what is to be retained meanwhile is told after this
	defer j.guard.tree.Unlock()
	if now, there := j.b.server.Topics.Retained.Get(topic); !there || string(now.Payload) != payload {
		return false, nil
	}
	for _, pk := range j.b.server.Topics.Messages(j.b.access.acl.prefix + domain + "/ep/+/" + participant + "/+") {
		var of life
		if json.Unmarshal(pk.Payload, &of) == nil && !of.after(died) {
			j.remove(pk.TopicName)
		}
	}
	j.remove(topic)
	return true, j.b.server.Publish(topic, nil, false, 0) // QoS 0 waits for nobody
}

// remove does what a publication without a payload would, for nobody to hear.
func (j *janitor) remove(topic string) { j.retain(topic, nil) }

// retain likewise.
func (j *janitor) retain(topic string, payload []byte) {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}, TopicName: topic, Payload: payload}
	kept := j.b.server.Topics.RetainMessage(pk)
	j.b.access.expiries.note(topic, &pk)
	if j.b.flow.persist != nil {
		j.b.flow.persist.OnRetainMessage(nil, pk, kept)
	}
	j.b.access.quota.keep(j.b.access.owner(topic), topic, retainedCost(&pk))
}
