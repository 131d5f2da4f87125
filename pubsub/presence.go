package pubsub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"padme/pubsub/internal/connection"
)

// Presence tells that a participant was born or died.
type Presence struct {
	ID          string
	Incarnation uint64 // of the participant's process
	Epoch       uint64 // of its connection; grows with every birth
	Alive       bool   // false after its death, announced by itself or by the broker
	// Since is when the participant was born or closed, by its clock. A death
	// that the broker announced has the time of the birth.
	Since    time.Time
	UserData map[string]string // what it gave to WithUserData
}

// counts reports whether an endpoint of the participant is of its present connection.
func (pr Presence) counts(e *endpoint) bool {
	return pr.Alive && pr.Epoch == e.epoch && pr.Incarnation == e.guid.Incarnation
}

// presenceJSON is the payload of R/presence/{P}. Numbers that can exceed 2^53
// are decimal strings, because JavaScript rounds them.
type presenceJSON struct {
	Alive       bool              `json:"alive"`
	Incarnation uint64            `json:"incarnation,string"`
	Epoch       uint64            `json:"epoch,string"`
	Since       time.Time         `json:"since"`
	UserData    map[string]string `json:"userData,omitempty"`
}

// maxPresence bounds a presence payload read from the network, in bytes: user
// data whose every byte JSON escapes, and the rest.
const maxPresence = 6*maxUserData + 1<<10

func parsePresence(id string, payload []byte) (Presence, error) {
	var j presenceJSON
	if len(payload) > maxPresence {
		return Presence{}, errors.New("pubsub: presence too large")
	}
	if err := json.Unmarshal(payload, &j); err != nil {
		return Presence{}, fmt.Errorf("pubsub: presence of %q: %w", id, err)
	}
	return Presence{ID: id, Incarnation: j.Incarnation, Epoch: j.Epoch, Alive: j.Alive, Since: j.Since, UserData: j.UserData}, nil
}

// A birth is what one connection of this participant announces. The death has
// the epoch of the birth, so that a last will which the broker publishes after
// the next birth is known to be stale.
type birth struct {
	epoch         uint64
	packet, death connection.Packet
}

func newBirth(p *Participant, epoch uint64) *birth {
	b := &birth{epoch: epoch}
	j := presenceJSON{Alive: true, Incarnation: p.incarnation, Epoch: epoch, Since: time.Now().UTC(), UserData: p.userData}
	b.packet = connection.Packet{Topic: p.self.topic, Payload: encodePresence(p, j), QoS: 1, Retain: true}
	b.death = b.encodeDeath(p, j.Since)
	return b
}

// publish returns when the broker has the birth.
func (b *birth) publish(ctx context.Context, k *connection.Link) error {
	return k.Publish(&b.packet).Wait(ctx)
}

// encodeDeath is the death at a time; a last will can only name that of the
// birth.
func (b *birth) encodeDeath(p *Participant, at time.Time) connection.Packet {
	j := presenceJSON{Incarnation: p.incarnation, Epoch: b.epoch, Since: at.UTC(), UserData: p.userData}
	return connection.Packet{Topic: p.self.topic, Payload: encodePresence(p, j), QoS: 1, Retain: true}
}

func encodePresence(p *Participant, j presenceJSON) []byte {
	payload, err := json.Marshal(j)
	if err != nil { // a clock beyond the year 9999
		p.log.Error("presence cannot be encoded: correct the clock", "error", err)
	}
	return payload
}
