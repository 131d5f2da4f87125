package pubsub

import (
	"context"
	"iter"
	"sync"
)

// An Event is a change of status of a writer or reader: Matched, Unmatched,
// IncompatibleQoS, InconsistentTopic, SampleLost, SampleRejected,
// OfferedDeadlineMissed, RequestedDeadlineMissed, LivelinessLost or
// LivelinessChanged.
type Event interface{ event() }

type (
	// Matched says that samples flow from or to Peer.
	Matched struct{ Peer GUID }
	// Unmatched says that Peer was closed or died.
	Unmatched struct{ Peer GUID }
	// IncompatibleQoS says that no data flows because more of Policy is
	// requested than offered.
	IncompatibleQoS struct {
		Peer   GUID
		Policy string
	}
	// InconsistentTopic says that no data flows because Peer has another type or
	// codec under the same topic name.
	InconsistentTopic struct {
		Peer GUID
		Type string
	}
	// SampleLost says that a reliable reader will never see Count samples:
	// the writer's history does not hold them any more.
	SampleLost struct {
		Writer GUID
		Count  uint64
	}
	// SampleRejected says that a sample was dropped at the reader: it could not
	// be decoded, or a resource limit was reached.
	SampleRejected struct {
		Writer GUID
		Err    error
	}
)

func (Matched) event()           {}
func (Unmatched) event()         {}
func (IncompatibleQoS) event()   {}
func (InconsistentTopic) event() {}
func (SampleLost) event()        {}
func (SampleRejected) event()    {}

// maxEvents bounds the events that wait for a reader of Events.
const maxEvents = 256

// events is a bounded queue: without a reader the oldest are dropped.
type events struct {
	mu    sync.Mutex
	queue []Event
	wake  chan struct{}
	count func(Event) // told every event, whoever reads it; nil for nobody
}

func newEvents() *events { return &events{wake: make(chan struct{}, 1)} }

func (e *events) add(ev Event) {
	if e.count != nil {
		e.count(ev)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == maxEvents {
		e.queue = e.queue[1:]
	}
	e.queue = append(e.queue, ev)
	signal(e.wake)
}

func (e *events) next() (Event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil, false
	}
	ev := e.queue[0]
	e.queue = e.queue[1:]
	if len(e.queue) > 0 {
		signal(e.wake)
	}
	return ev, true
}

// all yields events until ctx or the endpoint ends.
func (e *events) all(ctx context.Context, ended <-chan struct{}, why func() error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			if ev, ok := e.next(); ok {
				if !yield(ev, nil) {
					return
				}
				continue
			}
			select {
			case <-e.wake:
			case <-ctx.Done():
				return
			case <-ended:
				yield(nil, why())
				return
			}
		}
	}
}
