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
	spare  deque  // of spare packets
	turn   bool   // of a spare packet, if there are others, too
	taken  uint64 // how many spare packets ever left
	bytes  int    // of both
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
	if p.Spare {
		return f.putSpare(&p)
	}
	if p.op == nil && (f.queue.len() >= MaxQueued || f.bytes+len(p.Payload) > outboxBytes) {
		return &NoRoom{len(p.Payload), f.queue.len()}
	}
	f.placed++
	p.place, p.after = f.placed, f.taken+uint64(f.spare.len())
	if p.Bundle != nil && len(p.Payload) < MaxBundle {
		f.gather(&p)
	}
	f.queue.push(p)
	f.noteHeld(&p)
	f.bytes += len(p.Payload)
	wait.Signal(f.wake)
	return nil
}

// putSpare puts a packet that leaves half of the room to others; f.mu is held.
func (f *Queue) putSpare(p *Packet) error {
	if f.spare.len() >= MaxQueued/2 || f.bytes+len(p.Payload) > outboxBytes/2 {
		return &NoRoom{len(p.Payload), f.spare.len()}
	}
	f.spare.push(*p)
	f.bytes += len(p.Payload)
	wait.Signal(f.wake)
	return nil
}

// comesAfter reports whether a spare packet that was put before goes first: whoever has an op wants
// all to be sent that was put before it.
func (p *Packet) comesAfter(taken uint64) bool { return p.op != nil && taken < p.after }

// SpareLen is how many spare packets wait.
func (f *Queue) SpareLen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spare.len()
}

// Last returns the place of the last packet put, spare ones excepted.
func (f *Queue) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.placed
}

// Take implements Outbox.
func (f *Queue) Take(busy bool) (p Packet, due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, waits := f.held(), busy && f.waits()
	others := f.queue.len() > 0 && !held && !waits
	if f.turn = !f.turn || !others || f.queue.front().comesAfter(f.taken); f.turn && f.spare.len() > 0 {
		p, ok = f.spare.pop()
		f.taken++
		f.bytes -= len(p.Payload)
		f.admit()
		return p, time.Time{}, ok
	}
	if !others {
		if waits && !held {
			due = f.due
		}
		return Packet{}, due, false
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
	n := f.queue.len() + f.spare.len() + len(unacked)
	f.taken += uint64(f.spare.len())
	f.online, f.queue, f.spare, f.bytes, f.gathering = false, deque{}, deque{}, 0, 0
	f.admit()
	return n
}
