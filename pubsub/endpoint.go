package pubsub

import (
	"encoding/json"
	"errors"
	"fmt"

	"padme/pubsub/internal/wire"
)

// A GUID names a writer or reader for as long as its participant's process
// lives.
type GUID struct {
	Participant string
	Incarnation uint64
	Endpoint    string // unique within the participant
}

// String returns participant~incarnation/endpoint.
func (g GUID) String() string { return wire.GUID(g).String() }

// endpoint is what R/ep/{P}/{endpoint} says about a writer or reader.
type endpoint struct {
	guid  wire.GUID
	epoch uint64 // of the connection that announced it

	connection int // of ours on which we heard of it last
	endpointJSON
}

type endpointJSON struct {
	Kind        string `json:"kind"` // "writer" or "reader"
	Topic       string `json:"topic"`
	Type        string `json:"type"`
	Codec       Codec  `json:"codec"`
	Schema      uint64 `json:"schema,string"`
	Incarnation uint64 `json:"incarnation,string"`
	Epoch       uint64 `json:"epoch,string"`
	QoS         offer  `json:"qos"`
	Change      uint64 `json:"change,omitempty"` // how often the QoS was changed

	Fields    map[string]string `json:"fields,omitempty"`
	UserData  map[string]string `json:"userData,omitempty"`
	TopicData map[string]string `json:"topicData,omitempty"`
}

// maxEndpoint bounds an announcement, in bytes.
const maxEndpoint = 16 << 10

func parseEndpoint(participant, name string, payload []byte) (endpoint, error) {
	e := endpoint{guid: wire.GUID{Participant: participant, Endpoint: name}}
	if len(payload) > maxEndpoint {
		return e, errors.New("pubsub: endpoint announcement too large")
	}
	if err := json.Unmarshal(payload, &e.endpointJSON); err != nil {
		return e, fmt.Errorf("pubsub: endpoint %q of %q: %w", name, participant, err)
	}
	if e.Kind != "writer" && e.Kind != "reader" {
		return e, fmt.Errorf("pubsub: endpoint %q of %q is a %q", name, participant, e.Kind)
	}
	e.guid.Incarnation, e.epoch = e.Incarnation, e.Epoch
	return e, e.QoS.check()
}

// match returns nil if samples flow between the two, else the event that tells
// the local side why not.
func match(local, remote endpointJSON, peer wire.GUID) Event {
	if !consistent(&local, &remote) {
		return InconsistentTopic{GUID(peer), remote.Type}
	}
	offered, requested := local.QoS, remote.QoS
	if local.Kind == "reader" {
		offered, requested = requested, offered
	}
	if policy := incompatible(offered, requested); policy != "" {
		return IncompatibleQoS{GUID(peer), policy}
	}
	return nil
}
