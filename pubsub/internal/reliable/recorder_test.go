package reliable

import (
	"slices"

	"padme/pubsub/internal/wire"
)

// What a recorder was told.
type (
	Matched    struct{ Peer wire.GUID }
	Unmatched  struct{ Peer wire.GUID }
	SampleLost struct {
		Writer wire.GUID
		Count  uint64
	}
	SampleRejected struct {
		Writer wire.GUID
		Why    error
	}
	DeadlineMissed struct {
		Key   string
		Total uint64
	}
	LivelinessLost    struct{ Total uint64 }
	LivelinessChanged struct {
		Writer        wire.GUID
		Alive         bool
		Lives, Others int
	}
)

// recorder is told events.
type recorder struct{ events []any }

func (r *recorder) add(e any) { r.events = append(r.events, e) }

func (r *recorder) Matched(g wire.GUID)                        { r.add(Matched{g}) }
func (r *recorder) Unmatched(g wire.GUID)                      { r.add(Unmatched{g}) }
func (r *recorder) SampleLost(g wire.GUID, n uint64)           { r.add(SampleLost{g, n}) }
func (r *recorder) SampleRejected(g wire.GUID, why error)      { r.add(SampleRejected{g, why}) }
func (r *recorder) OfferedDeadlineMissed(k string, n uint64)   { r.add(DeadlineMissed{k, n}) }
func (r *recorder) RequestedDeadlineMissed(k string, n uint64) { r.add(DeadlineMissed{k, n}) }
func (r *recorder) LivelinessLost(n uint64)                    { r.add(LivelinessLost{n}) }

func (r *recorder) LivelinessChanged(g wire.GUID, alive bool, lives, others int) {
	r.add(LivelinessChanged{g, alive, lives, others})
}

// drain returns what was told since the last call.
func drain(ev Events) []any {
	r := ev.(*recorder)
	defer func() { r.events = nil }()
	return slices.Clone(r.events)
}

// told returns the events of a kind since the last call.
func told[E any](ev Events) (out []E) {
	for _, e := range drain(ev) {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}
