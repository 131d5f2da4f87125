// Package reliable is the protocol between writers and readers: which samples are held,
// acknowledged, missing, sent again or lost, and for how long the other side is waited
// for. A Sender is a writer's side of it, a Receiver a reader's, which takes samples into
// a cache. Both know neither the types of samples nor MQTT; what they send leaves by
// functions that they are given. Messages are repeated by timers of which Tick is told, so
// a process that is not scheduled only becomes slower.
package reliable

import (
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/wire"
)

// Policies are those of a writer or reader on which delivery depends. Package pubsub says
// what they mean (QoS).
type Policies struct {
	Reliable          bool
	Historic          bool // late joiners get what was written before them
	Transient         bool // also of writers that are gone
	KeepAll           bool
	Depth             int // of keep last
	DurabilityService int // of keep all: how many samples of each instance are for late joiners; 0: all
	MaxSamples        int
	MaxInstances      int
	MaxBlocking       time.Duration
	Exclusive         bool
	Strength          int    // of ownership
	Change            uint64 // how often a writer has changed its policies
	BySourceTime      bool
	Manual            bool          // the application says that it is alive
	Lease             time.Duration // of liveliness; 0: infinite
	Deadline          time.Duration // 0: none
	Lifespan          time.Duration // 0: for ever
	TimeBasedFilter   time.Duration // 0: none
	Partitions        partition.List
}

// ofCache are those of what a reader has received.
func (p *Policies) ofCache() *cache.Policies {
	return &cache.Policies{
		Reliable: p.Reliable, Transient: p.Transient, KeepAll: p.KeepAll, Depth: p.Depth, MaxSamples: p.MaxSamples, MaxInstances: p.MaxInstances,
		Exclusive: p.Exclusive, BySourceTime: p.BySourceTime, Deadline: p.Deadline, TimeBasedFilter: p.TimeBasedFilter,
	}
}

// change takes over what can be changed.
func (p *Policies) change(to *Policies) {
	p.Deadline, p.TimeBasedFilter, p.Lifespan, p.Partitions = to.Deadline, to.TimeBasedFilter, to.Lifespan, to.Partitions
	p.Strength, p.Change = to.Strength, to.Change
}

// A Peer is a writer or reader on the other side that matches.
type Peer struct {
	GUID       wire.GUID
	Reliable   bool
	Historic   bool // a reader wants what there was before it
	Partitions partition.List
	Schema     uint64
	Instance   string // key of the only one that a reader wants, "" for all
	Bundles    bool   // a reader understands them
	Lease      time.Duration
	Strength   int // of ownership

	Epoch  uint64 // of the connection on which it was announced
	Change uint64 // how often it has changed its policies
	Ours   uint64 // the same of our end, when it matches
}

// instanceLevel is the instance that a narrow reader wants, as a level; "" for all.
func (p *Peer) instanceLevel() string {
	if p.Instance == "" {
		return ""
	}
	encoded, err := level.Encode(p.Instance)
	if err != nil { // it names an instance that nobody can write
		encoded = "-/"
	}
	return encoded
}

// Events is told what happens to a writer or reader, in order. Its methods are called with
// a mutex held: they must neither block nor call back.
type Events interface {
	Matched(peer wire.GUID)
	Unmatched(peer wire.GUID)
	SampleLost(writer wire.GUID, count uint64)
	SampleRejected(writer wire.GUID, why error)
	OfferedDeadlineMissed(key string, total uint64)
	RequestedDeadlineMissed(key string, total uint64)
	LivelinessLost(total uint64)
	LivelinessChanged(writer wire.GUID, alive bool, aliveWriters, others int)
}
