package sla

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// maxValue bounds what ageing makes of a value: more than there will ever be
// entries to age by.
const maxValue = 1 << 62

// entry is a waiting request as one participant sees it: the own one, or the best
// one of everything behind a neighbor.
type entry struct {
	from  int                // the neighbor who asked, or the own index
	id    protocol.RequestID // the request itself
	value int64              // its importance here and now, on the paper's scale
	asked int64              // its importance when it was asked for
	hops  int                // links from here to the participant that made it
	count int64              // more important requests put in front since value last rose
	old   bool               // was here already when the token last left
}

// describe writes the entry into a message to a neighbor, who is one link
// farther from its origin.
func (e *entry) describe(m *protocol.Message) {
	m.ID, m.Priority, m.Hops = e.id, wireOf(e.value), uint32(e.hops)+1
}

// queue holds the waiting requests in the order of service, at most one from each
// neighbor and one of the own participant. Nobody's value is greater than that of
// the one before.
type queue []entry

// insert puts e behind the more important and those like it, and lets those that
// are less important grow as r says. One that becomes as important as e stays
// behind e unless nearness decides.
func (q *queue) insert(e entry, r *rules) {
	i := len(*q)
	for i > 0 && r.before(&e, &(*q)[i-1]) {
		i--
	}
	*q = slices.Insert(*q, i, e)
	if r.overtaken == nil {
		return
	}
	for i := range *q {
		if other := &(*q)[i]; other.value < e.value {
			r.overtaken(other)
		}
	}
	q.sort(r)
}

// remove takes out the entry from this side, if there is one.
func (q *queue) remove(from int) {
	*q = slices.DeleteFunc(*q, func(e entry) bool { return e.from == from })
}

// pop takes out the first entry.
func (q *queue) pop() entry {
	e := (*q)[0]
	*q = slices.Delete(*q, 0, 1)
	return e
}

// before reports whether a is served before b whatever came first.
func (r *rules) before(a, b *entry) bool {
	return a.value > b.value || r.nearest && a.value == b.value && a.hops < b.hops
}

// sort restores the order after values have grown.
func (q queue) sort(r *rules) {
	slices.SortStableFunc(q, func(a, b entry) int {
		switch {
		case r.before(&a, &b):
			return -1
		case r.before(&b, &a):
			return 1
		}
		return 0
	})
}

// show writes the queue as the paper's figures do: origin, or the neighbor on the
// way to it, and value: "6(3), 3(0)". Where requests rise only after several others,
// the number of these so far follows: "3(0+2)".
func (q queue) show(name func(i int) string) string {
	var b strings.Builder
	for i, e := range q {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s(%d", name(e.from), e.value)
		if e.count > 0 {
			fmt.Fprintf(&b, "+%d", e.count)
		}
		b.WriteString(")")
	}
	return b.String()
}
