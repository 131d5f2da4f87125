package cache

import (
	"time"

	"padme/pubsub/internal/wire"
)

// States of an instance. They have no type, as the API has its own for them.
const (
	Alive     = iota // a live writer wrote it last
	Disposed         // a writer disposed it
	NoWriters        // everyone who wrote it has unregistered it, was closed or died
)

// Whether the application has met an instance, and whether it has read a sample.
const (
	NewView = iota
	NotNewView

	NotRead = iota - 2
	Read
)

// A Writer is what a cache must know of the writer of samples.
type Writer struct {
	GUID     wire.GUID
	Strength int       // of ownership
	Change   uint64    // how often it had changed its policies to have that
	Died     time.Time // when its participant did, as long as it may come back; else zero
}

// A Sample is a received sample in its encoded form.
type Sample struct {
	Key    string // decoded key level
	Writer *Writer
	Seq    uint64
	Nanos  uint64 // source time
	Status wire.Status
	Orphan bool // its writer is gone, and the broker had retained it
	Body   []byte
	Expiry *Expiry // nil without lifespan

	Strength int    // of its writer when it was written
	Change   uint64 // how often the writer had changed its policies by then
}

// ofTheDead reports whether a sample keeps no instance alive: its writer is gone.
func (s *Sample) ofTheDead() bool { return s.Orphan || !s.Writer.Died.IsZero() }

// Held is what waits in a cache for its application.
type Held struct {
	Sample
	Received            time.Time
	DisposedGeneration  int // how often the instance had come back after a disposal by then
	NoWritersGeneration int // how often after it had lost its writers

	State uint8 // of the instance after this sample
	// When the sample was collected.
	SampleState, ViewState, InstanceState uint8

	gone bool // it has left the cache
	of   *instance
}

// Valid reports whether there is data, or only a change of state.
func (h *Held) Valid() bool { return h.Status == wire.StatusData }

type instance struct {
	state               uint8
	view                uint8
	writers             map[*Writer]struct{} // who wrote it and may write again
	disposed, noWriters int                  // times it came back from that state
	held                []*Held              // samples that wait, oldest first
	data                int                  // of held, with data

	owner     *Writer              // with exclusive ownership, by strengths as then; nil: the next to write it
	late      map[*Writer]struct{} // have not written since an owner missed the deadline
	strengths uint64               // those of the cache when the owner was found

	newest moment    // of destination order by source time
	given  time.Time // when its last sample was; of a time-based filter
}
