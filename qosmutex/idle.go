package qosmutex

import linked "container/list"

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
