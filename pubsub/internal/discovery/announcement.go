package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/wire"
)

// An Announcement is what R/ep/{topic}/{P}/{endpoint} says about a writer or reader.
type Announcement struct {
	Kind        string `json:"kind"` // "writer" or "reader"
	Topic       string `json:"topic"`
	Type        string `json:"type"`
	Codec       string `json:"codec"`
	Schema      uint64 `json:"schema,string"`
	Incarnation uint64 `json:"incarnation,string"`
	Epoch       uint64 `json:"epoch,string"` // of the connection that announced it
	QoS         Offer  `json:"qos"`
	Change      uint64 `json:"change,omitempty"` // how often the QoS was changed

	Fields    map[string]string `json:"fields,omitempty"`
	UserData  map[string]string `json:"userData,omitempty"`
	TopicData map[string]string `json:"topicData,omitempty"`
}

// An Offer is the part of the QoS that both sides must know; package pubsub says what the
// numbers mean. What is absent has the default; durations are in nanoseconds, 0 is infinite.
type Offer struct {
	Reliability     uint8          `json:"reliability"`
	Durability      uint8          `json:"durability"`
	Deadline        time.Duration  `json:"deadline,omitempty"`
	Liveliness      uint8          `json:"liveliness,omitempty"`
	Lease           time.Duration  `json:"lease,omitempty"`
	Exclusive       bool           `json:"exclusive,omitempty"`
	Strength        int            `json:"strength,omitempty"`
	Partition       partition.List `json:"partition,omitempty"`
	BySourceTime    bool           `json:"bySource,omitempty"`   // DESTINATION_ORDER
	Instance        string         `json:"instance,omitempty"`   // the only one a reader wants
	AllowCompatible bool           `json:"compatible,omitempty"` // TYPE_CONSISTENCY of a reader
	Bundles         bool           `json:"bundles,omitempty"`    // a writer may send them, a reader understands them
}

// A Remote is a writer or reader as its participant has announced it. What is exported does not change.
type Remote struct {
	Announcement
	GUID wire.GUID

	connection int  // of ours on which we heard of it last
	stays      bool // it is there although it was announced on another connection than the birth
}

const (
	// MaxAnnouncement bounds an announcement, in bytes.
	MaxAnnouncement = 16 << 10
	// maxDigits bounds the decimal digits of a number in an announcement.
	maxDigits = 20
)

// Parse reads what a participant has announced under a name.
func Parse(participant, name string, payload []byte) (*Remote, error) {
	e := &Remote{GUID: wire.GUID{Participant: participant, Endpoint: name}}
	if len(payload) > MaxAnnouncement {
		return nil, errors.New("pubsub: endpoint announcement too large")
	}
	if err := json.Unmarshal(payload, &e.Announcement); err != nil {
		return nil, fmt.Errorf("pubsub: endpoint %q of %q: %w", name, participant, err)
	}
	if e.Kind != "writer" && e.Kind != "reader" {
		return nil, fmt.Errorf("pubsub: endpoint %q of %q is a %q", name, participant, e.Kind)
	}
	if e.QoS.Deadline < 0 || e.QoS.Lease < 0 {
		return nil, fmt.Errorf("%w: a deadline of %v or a lease of %v", failure.ErrInvalid, e.QoS.Deadline, e.QoS.Lease)
	}
	e.GUID.Incarnation = e.Incarnation
	return e, nil
}

// check refuses an announcement that is too large, with the numbers that it has yet to get.
func (a *Announcement) check() error {
	payload, err := json.Marshal(a)
	if size := len(payload) + 2*maxDigits; err == nil && size > MaxAnnouncement {
		return fmt.Errorf("%w: the announcement has %d bytes, the most is %d: give less user or topic data", failure.ErrTooLarge, size, MaxAnnouncement)
	}
	return err
}
