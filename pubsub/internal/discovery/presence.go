package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"padme/pubsub/internal/connection"
)

// Presence is what package pubsub says of its Presence.
type Presence struct {
	ID          string
	Incarnation uint64
	Epoch       uint64
	Alive       bool
	Since       time.Time
	Closed      bool
	UserData    map[string]string
}

// presenceJSON is the payload of R/presence/{P}. Numbers that can exceed 2^53
// are decimal strings, because JavaScript rounds them.
type presenceJSON struct {
	Alive       bool              `json:"alive"`
	Incarnation uint64            `json:"incarnation,string"`
	Epoch       uint64            `json:"epoch,string"`
	Since       time.Time         `json:"since"`
	UserData    map[string]string `json:"userData,omitempty"`
	Ended       map[string]uint64 `json:"ended,omitempty"` // of a death: see Leave
}

// MaxEnded bounds the writers that a death names.
const MaxEnded = 64

// MaxUserData bounds the user data in a birth, in bytes as JSON.
const MaxUserData = 8 << 10

// maxPresence bounds a presence payload read from the network, in bytes: user
// data whose every byte JSON escapes, and the rest.
const maxPresence = 6*MaxUserData + MaxEnded<<6 + 1<<10

// ParsePresence reads what the broker retains of a participant.
func ParsePresence(id string, payload []byte) (Presence, error) {
	pr, _, err := parsePresence(id, payload)
	return pr, err
}

// parsePresence returns the last samples of closed writers, too, by name.
func parsePresence(id string, payload []byte) (pr Presence, ended map[string]uint64, err error) {
	var j presenceJSON
	if len(payload) > maxPresence {
		return pr, nil, errors.New("pubsub: presence too large")
	}
	if err := json.Unmarshal(payload, &j); err != nil {
		return pr, nil, fmt.Errorf("pubsub: presence of %q: %w", id, err)
	}
	return Presence{
		ID: id, Incarnation: j.Incarnation, Epoch: j.Epoch, Alive: j.Alive, Since: j.Since, Closed: !j.Alive && len(j.Ended) > 0, UserData: j.UserData,
	}, j.Ended, nil
}

// A Birth is what one connection of this participant announces. The death has
// the epoch of the birth, so that a last will which the broker publishes after
// the next birth is known to be stale.
type Birth struct {
	Packet, Death connection.Packet

	epoch uint64
}

func (d *Directory) newBirth(epoch uint64) *Birth {
	now := time.Now()
	return &Birth{epoch: epoch, Packet: d.presence(true, epoch, now, nil), Death: d.presence(false, epoch, now, nil)}
}

// presence is that of this participant. A last will can only name the time of the birth.
func (d *Directory) presence(alive bool, epoch uint64, at time.Time, ended map[string]uint64) connection.Packet {
	payload, err := json.Marshal(presenceJSON{Alive: alive, Incarnation: d.Incarnation, Epoch: epoch, Since: at.UTC(), UserData: d.UserData, Ended: ended})
	if err != nil { // a clock beyond the year 9999
		d.Log.Error("presence cannot be encoded: correct the clock", "error", err)
	}
	return connection.Packet{Topic: d.Topic(), Payload: payload, QoS: 1, Retain: true}
}

// Topic is that of the presence of this participant.
func (d *Directory) Topic() string { return d.Root + "/presence/" + d.Level }
