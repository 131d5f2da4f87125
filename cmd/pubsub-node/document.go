package main

import (
	"encoding/json"
	"time"

	"padme/pubsub"
)

// document is the type of the topics that pub writes and sub reads: any JSON
// value, of one instance for each key.
type document struct {
	Key   string          `json:"key" pubsub:"key"`
	Value json.RawMessage `json:"value"`
}

func newDocumentTopic(p *pubsub.Participant, name string) (*pubsub.Topic[document], error) {
	return pubsub.NewTopic[document](p, name, pubsub.WithCodec(pubsub.JSON))
}

// deliverAll loses nothing between a pub and a sub: the writer keeps what a
// reader has not acknowledged, and a reader that comes while the writer lives
// gets what was written before.
func deliverAll() pubsub.EndpointOption {
	return pubsub.WithQoS(pubsub.QoS{
		Reliability: pubsub.Reliable,
		Durability:  pubsub.TransientLocal,
		History:     pubsub.KeepAll,
		MaxBlocking: time.Minute,
	})
}
