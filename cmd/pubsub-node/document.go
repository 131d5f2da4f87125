package main

import (
	"encoding/json"
	"maps"
	"slices"
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
func deliverAll() pubsub.QoS {
	return pubsub.QoS{
		Reliability: pubsub.Reliable,
		Durability:  pubsub.TransientLocal,
		History:     pubsub.KeepAll,
		MaxBlocking: time.Minute,
	}
}

// lateSamples is how many samples of an instance a pub has for those that come while it runs.
const lateSamples = 1000

// deliverOn is deliverAll for a writer that may go on without end.
func deliverOn() pubsub.QoS {
	q := deliverAll()
	q.DurabilityService = lateSamples
	return q
}

// maxPartitions is how many a reader may name.
const maxPartitions = 16

// adapted is deliverAll, or less where a living writer of the topic offers less.
func adapted(endpoints []pubsub.Announcement, topic string) pubsub.QoS {
	q := deliverAll()
	writers, exclusive := 0, 0
	partitions := map[string]bool{}
	for _, e := range endpoints {
		if e.Kind != "writer" || e.Topic != topic || !e.Alive {
			continue
		}
		writers++
		q.Reliability = min(q.Reliability, e.QoS.Reliability)
		q.Durability = min(q.Durability, e.QoS.Durability)
		if e.QoS.Exclusive {
			exclusive++
		}
		if len(e.QoS.Partition) == 0 {
			partitions["default"] = true
		}
		for _, name := range e.QoS.Partition {
			partitions[name] = true
		}
	}
	q.Exclusive = writers > 0 && exclusive == writers
	switch {
	case len(partitions) > maxPartitions:
		q.Partition = []string{"*"}
	case len(partitions) > 1 || !partitions["default"]: // the default is none
		q.Partition = slices.Sorted(maps.Keys(partitions))
	}
	return q
}
