package qosmutex

import (
	"sync"
	"sync/atomic"
	"time"

	"padme/qosmutex/internal/seldom"
)

// What a participant sends to all members costs each of them a step of its machine, and
// most of it an answer. So a topic handles a bounded part of it, of each sender and in
// all, and drops the rest before it is decoded or the topic is locked. Nothing is lost
// by that but time: a participant without a parent asks again after its JoinWait, and a
// root announces itself with each TTL.
const (
	// joinRate is how many such messages a second are handled of one sender. It asks once
	// in a JoinWait, so 7 times a second with LAN and 33 with Local, and only while nobody
	// has a place for it; a root that collects what its predecessor gave announces itself
	// as often.
	joinRate = 20
	// joinBurst is how many are handled of one sender at once: with Local, a search of
	// two seconds and more.
	joinBurst = 40
	// joinFirst is how many of them a sender has before it counts as one that repeats
	// itself. Senders that do share repeatRate, and do not take from newcomersRate: a flood
	// in many names does not keep newcomers out.
	joinFirst = 8
	// newcomersRate and newcomersBurst are for all senders together: a thousand that start
	// at once ask four times each.
	newcomersRate  = 2000
	newcomersBurst = 4000
	repeatRate     = 400
	repeatBurst    = 400
	// maxJoinSenders bounds those that are remembered, which is until joinBurst is there
	// again. The others count as one that repeats itself.
	maxJoinSenders = 4096
)

// allowance is what may still be handled, as of an instant.
type allowance struct {
	left float64
	at   time.Time
}

// refill brings it up to date. One that was never used is full.
func (a *allowance) refill(rate, burst float64, now time.Time) {
	if a.at.IsZero() {
		a.left = burst
	} else {
		a.left = min(a.left+now.Sub(a.at).Seconds()*rate, burst)
	}
	a.at = now
}

// joinLimit decides what is handled. The zero value is ready, for several goroutines.
type joinLimit struct {
	dropped atomic.Uint64
	told    seldom.Log

	mu                sync.Mutex
	senders           map[string]*allowance
	swept             time.Time // when senders was last looked through
	newcomers, repeat allowance // of all senders
}

// admit reports whether another message of a sender is handled.
func (l *joinLimit) admit(from string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.sender(from, now)
	all := &l.repeat
	if own != nil {
		own.refill(joinRate, joinBurst, now)
		if own.left < 1 {
			return false
		}
		if own.left > joinBurst-joinFirst {
			all = &l.newcomers
		}
		own.left-- // also for what is dropped: who floods does not become a newcomer by that
	}
	l.newcomers.refill(newcomersRate, newcomersBurst, now)
	l.repeat.refill(repeatRate, repeatBurst, now)
	if all.left < 1 {
		return false
	}
	all.left--
	return true
}

// sender is the allowance of a sender; nil: there is no room to remember it. The caller
// holds mu.
func (l *joinLimit) sender(from string, now time.Time) *allowance {
	if own := l.senders[from]; own != nil {
		return own
	}
	if now.Sub(l.swept) >= time.Second { // so that it costs little, however many there are
		l.swept = now
		for name, a := range l.senders {
			if a.refill(joinRate, joinBurst, now); a.left >= joinBurst {
				delete(l.senders, name)
			}
		}
	}
	if len(l.senders) >= maxJoinSenders {
		return nil
	}
	if l.senders == nil {
		l.senders = map[string]*allowance{}
	}
	own := &allowance{}
	l.senders[from] = own
	return own
}

// flooded notes that a message to all members was dropped.
func (t *Topic) flooded(from string, now time.Time) {
	t.joining.dropped.Add(1)
	if t.joining.told.May(from, now) {
		t.log.Warn("a participant sends more to all members than they handle: some of it is dropped, and it has to ask again", "from", from)
	}
}
