package pubsub

import (
	"context"
	"iter"
	"sync"

	"padme/internal/wait"
)

// An Event is a change of status of a writer or reader: Matched, Unmatched,
// IncompatibleQoS, InconsistentTopic, SampleLost, SampleRejected,
// OfferedDeadlineMissed, RequestedDeadlineMissed, LivelinessLost or
// LivelinessChanged.
type Event interface{ event() statusKind }

type (
	// Matched says that samples flow from or to Peer.
	Matched struct{ Peer GUID }
	// Unmatched says that Peer was closed or died, or does not match any more.
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
	// SampleLost says that a reliable reader will never see Count samples: the
	// writer's history does not hold them any more, or the writer was closed, has
	// been dead for 30 s, or does not match any more; or they are older than a last value
	// that a transient reader got while the writer seemed to be gone.
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
	// OfferedDeadlineMissed says that this writer did not write Instance within
	// its Deadline. It comes again for each further period, until the instance is
	// written, disposed or unregistered.
	OfferedDeadlineMissed struct {
		Instance string // as SampleInfo.Key
		Total    uint64 // periods missed by this writer so far, over all instances
	}
	// RequestedDeadlineMissed says that this reader got no sample of Instance
	// within its Deadline. It comes again for each further period, until a sample
	// comes or the instance is not alive any more.
	RequestedDeadlineMissed struct {
		Instance string // as SampleInfo.Key
		Total    uint64 // periods missed by this reader so far, over all instances
	}
)

func (Matched) event() statusKind                 { return countMatched }
func (Unmatched) event() statusKind               { return countUnmatched }
func (IncompatibleQoS) event() statusKind         { return countIncompatible }
func (InconsistentTopic) event() statusKind       { return countInconsistent }
func (SampleLost) event() statusKind              { return countLost }
func (SampleRejected) event() statusKind          { return countRejected }
func (OfferedDeadlineMissed) event() statusKind   { return countOfferedDeadline }
func (RequestedDeadlineMissed) event() statusKind { return countRequestedDeadline }

// maxEvents bounds the events that wait for a reader of Events.
const maxEvents = 256

// events is a bounded queue: without a reader the oldest are dropped. SampleLost after one of the same
// writer is added to that: a thousand lost one by one are to be one event, not the loss of all others.
type events struct {
	mu    sync.Mutex
	queue []Event
	wake  chan struct{}
	count func(Event) // told every event, whoever reads it
}

func newEvents(count func(Event)) *events { return &events{wake: make(chan struct{}, 1), count: count} }

func (e *events) add(ev Event) {
	e.count(ev)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.adds(ev) {
		return
	}
	if len(e.queue) == maxEvents {
		e.queue = e.queue[1:]
	}
	e.queue = append(e.queue, ev)
	wait.Signal(e.wake)
}

// adds reports whether an event is part of the last one that waits now.
func (e *events) adds(ev Event) bool {
	n := len(e.queue)
	more, ok := ev.(SampleLost)
	if n == 0 || !ok {
		return false
	}
	last, ok := e.queue[n-1].(SampleLost)
	if !ok || last.Writer != more.Writer {
		return false
	}
	last.Count += more.Count
	e.queue[n-1] = last
	return true
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
		wait.Signal(e.wake)
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
