package pubsub

import (
	"slices"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// Between the API and the layers below, which have types of their own: what users see is
// documented here in full, and what a layer sees is no more than it needs.

// delivery are the policies on which delivery depends.
func (q *QoS) delivery() reliable.Policies {
	return reliable.Policies{
		Reliable: q.Reliability == Reliable, Historic: q.Durability >= TransientLocal, Transient: q.Durability == Transient,
		KeepAll: q.History == KeepAll, Depth: q.Depth, DurabilityService: q.DurabilityService, MaxSamples: q.MaxSamples, MaxInstances: q.MaxInstances, MaxBlocking: q.MaxBlocking,
		Exclusive: q.Exclusive, Strength: q.Strength, BySourceTime: q.BySourceTime, Manual: q.Liveliness != Automatic, Lease: q.LivelinessLease,
		Deadline: q.Deadline, Lifespan: q.Lifespan, TimeBasedFilter: q.TimeBasedFilter, Partitions: q.Partition,
	}
}

// offer are the policies that others must know.
func (q *QoS) offer() discovery.Offer {
	return discovery.Offer{
		Reliability: uint8(q.Reliability), Durability: uint8(q.Durability),
		Deadline: q.Deadline, Liveliness: uint8(q.Liveliness), Lease: q.LivelinessLease,
		Exclusive: q.Exclusive, Strength: q.Strength,
		Partition: q.Partition, BySourceTime: q.BySourceTime, AllowCompatible: q.AllowCompatible,
	}
}

// policiesOf are those of an announcement.
func policiesOf(o *discovery.Offer) QoS {
	return QoS{
		Reliability: Reliability(o.Reliability), Durability: Durability(o.Durability),
		Deadline: o.Deadline, Liveliness: Liveliness(o.Liveliness), LivelinessLease: o.Lease,
		Exclusive: o.Exclusive, Strength: o.Strength,
		Partition: slices.Clone(o.Partition), BySourceTime: o.BySourceTime, AllowCompatible: o.AllowCompatible,
	}
}

// peerOf is what an endpoint must know of another that matches. ours is how often its own
// policies have changed.
func peerOf(e *discovery.Remote, ours uint64) reliable.Peer {
	q := &e.QoS
	return reliable.Peer{
		Epoch: e.Epoch, Change: e.Change, Ours: ours,
		GUID: e.GUID, Reliable: Reliability(q.Reliability) == Reliable, Historic: Durability(q.Durability) >= TransientLocal, Partitions: q.Partition,
		Schema: e.Schema, Instance: q.Instance, Bundles: q.Bundles, Lease: q.Lease, Strength: q.Strength,
	}
}

// outOf is how a writer with an address sends.
func (x *exchange) outOf(a *address) reliable.Out {
	return reliable.Out{
		Publish: func(partition, key string, payload []byte, with reliable.Sharing) error {
			return x.samples.Put(a.packet(partition, key, payload, with))
		},
		Retain: func(partition, key string, payload []byte) error {
			p := a.packet(partition, key, payload, reliable.Alone)
			p.Retain = true
			if len(payload) == 0 {
				return x.samples.Put(p)
			}
			return x.earlier.replace(a.instance(partition, key), a.name, func() error { return x.samples.Put(p) })
		},
		Left: func(partition, key string) []string { return x.earlier.of(a.instance(partition, key)) },
		Clear: func(partition, key, writer string) error {
			instance := a.instance(partition, key)
			p := connection.Packet{Topic: instance + writer, QoS: a.qos, Retain: true}
			return x.earlier.clear(instance, writer, func() error { return x.samples.Put(p) })
		},
		Cleared: func(partition, key, writer string) { x.earlier.cleared(a.instance(partition, key), writer) },
		Post:    x.p.message, Placed: x.samples.Last, Passed: x.data.Passed, SendNow: x.samples.Send, Gather: a.gather, Wake: x.stir,
		MaxLost: connection.MaxQueued + connection.MaxInFlight,
	}
}

func infoOf(h *cache.Held) SampleInfo {
	return SampleInfo{
		Valid: h.Valid(), State: InstanceState(h.State), Key: h.Key, Writer: GUID(h.Writer.GUID), Sequence: h.Seq,
		SourceTime: time.Unix(0, int64(h.Nanos)), ReceiveTime: h.Received,
		DisposedGeneration: h.DisposedGeneration, NoWritersGeneration: h.NoWritersGeneration,
		SampleState: SampleState(h.SampleState), ViewState: ViewState(h.ViewState), InstanceState: InstanceState(h.InstanceState),
	}
}

func (e *events) Matched(peer wire.GUID)   { e.add(Matched{GUID(peer)}) }
func (e *events) Unmatched(peer wire.GUID) { e.add(Unmatched{GUID(peer)}) }

func (e *events) SampleLost(writer wire.GUID, count uint64) { e.add(SampleLost{GUID(writer), count}) }

func (e *events) SampleRejected(writer wire.GUID, why error) {
	e.add(SampleRejected{GUID(writer), why})
}

func (e *events) OfferedDeadlineMissed(key string, total uint64) {
	e.add(OfferedDeadlineMissed{key, total})
}

func (e *events) RequestedDeadlineMissed(key string, total uint64) {
	e.add(RequestedDeadlineMissed{key, total})
}

func (e *events) LivelinessLost(total uint64) { e.add(LivelinessLost{total}) }

func (e *events) LivelinessChanged(writer wire.GUID, alive bool, aliveWriters, others int) {
	e.add(LivelinessChanged{GUID(writer), alive, aliveWriters, others})
}
