package connection

import (
	"sync"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/failure"
)

// Queue is the outbox of a lane whose users resend after a reconnection.
type Queue struct {
	mu     sync.Mutex
	online bool
	queue  deque
	bytes  int
	placed uint64 // place of the last packet put
	// gathering counts packets of the queue that may grow; due is when the first of
	// them ends to.
	gathering int
	due       time.Time
	hold      hold

	wake chan struct{}
	room room
}

// NewQueue makes an empty one, which takes nothing until it is open.
func NewQueue() *Queue { return &Queue{wake: make(chan struct{}, 1)} }

// Put implements Outbox. Errors: ErrOffline, ErrBacklog.
func (f *Queue) Put(p Packet) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.online {
		return failure.ErrOffline
	}
	if f.joinHeld(&p) {
		return nil
	}
	if p.Bundle != nil && f.bytes+len(p.Payload) <= outboxBytes && f.join(&p) {
		f.bytes += len(p.Payload)
		return nil // whoever takes packets knows of this one
	}
	packets, bytes := MaxQueued, outboxBytes
	if p.Spare {
		packets, bytes = packets/2, bytes/2
	}
	if p.op == nil && (f.queue.len() >= packets || f.bytes+len(p.Payload) > bytes) {
		return &NoRoom{len(p.Payload), f.queue.len()}
	}
	f.placed++
	p.place = f.placed
	if p.Bundle != nil && len(p.Payload) < MaxBundle {
		f.gather(&p)
	}
	f.queue.push(p)
	f.noteHeld(&p)
	f.bytes += len(p.Payload)
	wait.Signal(f.wake)
	return nil
}

// Last returns the place of the last packet put.
func (f *Queue) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.placed
}

// Take implements Outbox.
func (f *Queue) Take(busy bool) (p Packet, due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held() {
		return Packet{}, time.Time{}, false
	}
	if busy && f.waits() {
		return Packet{}, f.due, false
	}
	p, ok = f.queue.pop()
	f.bytes -= len(p.Payload)
	if p.gathers {
		f.gathering--
	}
	f.admit()
	return p, time.Time{}, ok
}

func (f *Queue) ready() <-chan struct{} { return f.wake }

// Open implements Outbox.
func (f *Queue) Open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.online = true
}

func (f *Queue) lost(unacked []Packet) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.queue.len() + len(unacked)
	f.online, f.queue, f.bytes, f.gathering = false, deque{}, 0, 0
	f.admit()
	return n
}
