package qosmutex

import (
	linked "container/list"
	"time"
)

// maxIdle is of how many resources of a lock that nobody declared and nobody uses the state is
// retained: names may come and go for ever, and brokers keep only so much for a user. Of
// more, those that nobody has used for longest are cleared until they are used again.
const maxIdle = 1024

// idle are the notices of resources that are shown, undeclared and unused, the one that is so
// for longest first. The zero value is ready to use.
type idle struct{ list linked.List }

// note moves a notice to the end, or takes it out.
func (i *idle) note(n *notice, unused bool) {
	switch {
	case unused && n.idle == nil:
		n.idle = i.list.PushBack(n)
	case unused:
		i.list.MoveToBack(n.idle)
	case n.idle != nil:
		i.list.Remove(n.idle)
		n.idle = nil
	}
}

// fade has the states cleared that are too many. The caller holds mu.
func (b *board) fade() {
	for b.idle.list.Len() > maxIdle {
		n := b.idle.list.Front().Value.(*notice)
		b.idle.note(n, false)
		n.faded, n.shown, n.cleared = true, false, true
		b.cleared = append(b.cleared, n.resource)
	}
}

// forget drops the notice of a resource that the machine has forgotten, and its state.
func (b *board) forget(n *notice) {
	b.idle.note(n, false)
	n.busy = false
	if delete(b.resources, n.resource); !n.cleared && n.last.Resource != "" {
		b.cleared = append(b.cleared, n.resource)
	}
}

// full reports whether the states of enough other idle resources are shown. A new root, which
// knows those of the term before, would show all of them and then clear most.
func (b *board) full(n *notice) bool { return n.idle == nil && b.idle.list.Len() >= maxIdle }

// sweepEvery is how often everything is looked at, though only what is busy changes with time;
// sweepIdle is that of a topic where nothing is.
const (
	sweepEvery = time.Second
	sweepIdle  = 10 * time.Second
)

// touchBusy has the states of those resources published soon that may change with time, if
// they do: those that are held, waited for or looked for. A topic may have thousands of
// others. The caller holds mu.
func (t *Topic) touchBusy() {
	b := &t.board
	quiet := len(b.busy) == 0 && b.view.Members == t.status.Members && b.view.GrantsFrom.IsZero()
	every := sweepEvery
	if quiet {
		every = sweepIdle
	}
	if now := time.Now(); now.Sub(b.swept) >= every {
		b.swept = now
		t.touch(Any)
		return
	}
	if quiet {
		return
	}
	b.viewDirty = true
	still := b.busy[:0]
	for _, n := range b.busy {
		if n.listed = n.busy; n.busy {
			still = append(still, n)
			t.touch(n.resource)
		}
	}
	clear(b.busy[len(still):])
	b.busy = still
	t.flushSoon(flushAfter)
}

func (b *board) noteBusy(n *notice, busy bool) {
	if n.busy = busy; busy && !n.listed {
		n.listed = true
		b.busy = append(b.busy, n)
	}
}
