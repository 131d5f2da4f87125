package connection

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"padme/pubsub/internal/failure"
)

// NoRoom is the error of a packet that a Queue has no room for; errors.Is finds ErrBacklog.
type NoRoom struct {
	Size   int // of its payload
	queued int
}

func (e *NoRoom) Error() string {
	return fmt.Sprintf("%v: %d messages wait for the broker: it or the network is too slow, send less", failure.ErrBacklog, e.queued)
}

// Unwrap serves errors.Is.
func (e *NoRoom) Unwrap() error { return failure.ErrBacklog }

// room has those take turns who wait for room in a Queue, whose mutex guards it. As many are
// called as there is room for: if all were, most would try for nothing, and if none were before
// the queue is half empty, each would wait for seconds at a slow link.
type room struct {
	turns   atomic.Int32 // those who wait, and those called who have not left
	came    uint64       // how many ever have
	waiting []*Turn      // in the order in which they came
	called  int          // those for whom room is kept
	bytes   int          // that is kept for them
}

// A Turn is the place of one who waits for room in a Queue.
type Turn struct {
	queue  *Queue
	number uint64
	size   int
	again  chan struct{}
	called bool
}

// Yield returns an error if others wait for room, which one who comes now should not take:
// whoever needs much would wait for ever.
func (f *Queue) Yield(size int) error {
	if f.room.turns.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &NoRoom{size, f.queue.len()}
}

// Turn gives a place behind those who wait.
func (f *Queue) Turn() *Turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.came++
	f.room.turns.Add(1)
	return &Turn{queue: f, number: f.room.came}
}

// Wait returns a channel that is closed when it is worth trying to put a payload of this size.
// Who has tried in vain keeps the place.
func (t *Turn) Wait(size int) <-chan struct{} {
	f := t.queue
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.release(t)
	t.size, t.again = size, make(chan struct{})
	i, _ := slices.BinarySearchFunc(f.room.waiting, t, func(a, b *Turn) int { return cmp.Compare(a.number, b.number) })
	f.room.waiting = slices.Insert(f.room.waiting, i, t)
	f.admit()
	return t.again
}

// Leave gives up the place, after a success or not.
func (t *Turn) Leave() {
	f := t.queue
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.turns.Add(-1)
	f.room.release(t)
	f.admit()
}

// release takes t out, and keeps no more room for it.
func (r *room) release(t *Turn) {
	if t.called {
		t.called = false
		r.called, r.bytes = r.called-1, r.bytes-t.size
	} else if i := slices.Index(r.waiting, t); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// admit calls those for whom there is room, or all without a connection; f.mu is held.
func (f *Queue) admit() {
	r := &f.room
	n := 0
	for ; n < len(r.waiting); n++ {
		t := r.waiting[n]
		if f.online && (f.queue.len()+r.called >= MaxQueued || f.bytes+r.bytes+t.size > outboxBytes) {
			break
		}
		t.called = true
		r.called, r.bytes = r.called+1, r.bytes+t.size
		close(t.again)
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
}
