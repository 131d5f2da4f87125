package gateway

import (
	"errors"
	"sync"
	"time"

	"padme/pubsub"
)

const (
	// answersAtOnce is how many there is room for: some milliseconds of sending.
	answersAtOnce = 256
	// answersWait is the pause until there may be room again, and answersStale is how long there may
	// be none: by then clients ask again.
	answersWait, answersStale = 2 * time.Millisecond, time.Second
)

// answers sends answers, in turns of their clients while the connection has no room for all: a
// grant must not wait behind, nor be dropped for, thousands of refusals to somebody else. It needs
// no goroutine while there is room.
type answers struct {
	each, most int                 // how many may wait: of a client, and of all
	publish    func(*answer) error // which does not block
	dropped    func(n int)
	ended      <-chan struct{} // of the participant
	running    sync.WaitGroup

	mu      sync.Mutex
	waiting fair[*answer]
	serving bool // a goroutine sends those that wait
	closed  bool
}

// answer is one on its way to a client.
type answer struct {
	topic, client string
	payload       []byte
}

// send sends an answer or keeps it until there is room. An error says that it is lost.
func (a *answers) send(x *answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting.size == 0 {
		if err := a.publish(x); !errors.Is(err, pubsub.ErrBacklog) {
			return err
		}
	}
	if a.closed || a.waiting.has(x.client) >= a.each || a.waiting.size >= a.most {
		return pubsub.ErrBacklog
	}
	a.waiting.put(x.client, x)
	if !a.serving {
		a.serving = true
		a.running.Go(a.serve)
	}
	return nil
}

// close returns when nothing waits any more.
func (a *answers) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// serve sends those that wait until there are none.
func (a *answers) serve() {
	pause := time.NewTimer(answersWait)
	defer pause.Stop()
	for moved := time.Now(); ; pause.Reset(answersWait) {
		sent, done := a.sendSome(time.Since(moved) > answersStale)
		if done {
			return
		}
		if sent {
			moved = time.Now()
		}
		select {
		case <-pause.C:
		case <-a.ended: // so publishing fails
		}
	}
}

// sendSome sends as many as there is room for, and drops the others if they are stale.
func (a *answers) sendSome(stale bool) (sent, done bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for x, ok := a.waiting.next(); ok; x, ok = a.waiting.next() {
		err := a.publish(x)
		if errors.Is(err, pubsub.ErrBacklog) {
			if !stale {
				return sent, false
			}
			a.dropped(a.waiting.size)
			a.waiting = fair[*answer]{}
			break
		}
		if sent = true; err != nil {
			a.dropped(1)
		}
		_, _ = a.waiting.take()
	}
	a.serving = false
	return sent, true
}
