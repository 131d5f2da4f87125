package qosmutex

import (
	"sync"
	"time"

	"padme/qosmutex/protocol"
)

// wakeUp is the one timer of a topic.
type wakeUp struct {
	timer   *time.Timer
	at      protocol.Time  // when it will fire; Never while it is stopped
	running sync.WaitGroup // armed, or its function runs
}

// arm has the machine stepped at the time it asked for. While something is held
// it is stepped every tenth of the TTL at least: timers stop while the machine
// sleeps, the clock of sessions does not.
//
// A timer that would fire too early is left alone: a superfluous tick costs less
// than moving the timer at each step.
func (t *Topic) arm(now, wakeAt protocol.Time) {
	if len(t.inside) > 0 && t.status.TTL > 0 {
		wakeAt = min(wakeAt, now+t.status.TTL/10)
	}
	w := &t.wake
	if wakeAt >= w.at || t.ended {
		return
	}
	d := max(time.Duration(wakeAt-now), 0)
	if w.timer == nil {
		w.running.Add(1)
		w.timer = time.AfterFunc(d, t.tick)
	} else if !w.timer.Reset(d) {
		w.running.Add(1)
	}
	w.at = wakeAt
}

// disarm stops the timer for good; the caller waits for running without mu.
func (w *wakeUp) disarm() {
	if w.timer != nil && w.timer.Stop() {
		w.running.Done()
	}
	w.at = protocol.Never
}
