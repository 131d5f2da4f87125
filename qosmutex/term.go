package qosmutex

import (
	"sync/atomic"
	"time"

	"padme/qosmutex/protocol"
)

// term is the time in which this participant speaks for its topic: it is the root,
// and its lease is valid. States and views are published in a term only, whatever was
// on its way when it ended.
type term struct {
	clock func() protocol.Time
	until atomic.Int64
}

// lasts reports whether the term is not over. It may be called without mu.
func (r *term) lasts() bool { return r != nil && int64(r.clock()) < r.until.Load() }

// rule follows the term of this participant after a step. It comes before the messages
// of the step: a participant that reads those may be the next root. The caller holds mu.
func (t *Topic) rule(now protocol.Time) {
	b := &t.board
	until := t.machine.RulesUntil()
	over := now >= until
	switch {
	case b.term == nil && over:
		return
	case b.term == nil:
		b.term = &term{clock: t.clock}
		b.resources, b.dirty, b.busy, b.idle = map[string]*notice{}, nil, nil, idle{}
		for i, all := 0, t.machine.Status().Resources; i < len(all); i++ {
			t.noticeOf(all[i].Resource)
		}
		b.lookAgain()
		t.report(eventRecord{name: EventRooted, at: time.Now()})
		t.warnOfEarlier()
	}
	was := protocol.Time(b.term.until.Swap(int64(until)))
	if over {
		b.term = nil
		t.noteLeaseOver(now - was)
	}
	if over || b.all {
		t.flushSoon(flushAfter)
	}
}

// noteLeaseOver tells people of a root whose lease ended that long ago, not of one that
// stops before. The caller holds mu.
func (t *Topic) noteLeaseOver(late protocol.Duration) {
	if late >= 0 && t.status.Role == protocol.Root && !t.closing {
		t.warn("the lease of this root ended before it was renewed, and nothing is granted until there is a root again: "+
			"is the machine overloaded, its disk slow, or the register or the broker away?", "noticed after", time.Duration(late))
	}
}
