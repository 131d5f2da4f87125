package sim

import "padme/qosmutex/protocol"

// eventKind says what an event in the queue is.
type eventKind uint8

const (
	eventAction       eventKind = iota // call actions[slot]
	eventLeave                         // the application of calls[slot] is done
	eventGiveUp                        // the deadline of calls[slot] has passed
	eventRequest                       // the workload of node asks again
	eventArrival                       // node makes the request of arrival slot
	eventDeliver                       // packets[slot] reaches node
	eventReconnect                     // node has its network back
	eventTick                          // the machine of node asked to be woken
	eventTake                          // the register takes the request asked[slot] of node
	eventAnswer                        // its answer to asked[slot] reaches node
	eventGiveUpAsking                  // node waits no longer for that answer
)

// event is one thing to come: small and without pointers, so that a queue of
// many is cheap to move about and nothing to the garbage collector.
type event struct {
	at   protocol.Time
	seq  uint64 // order of scheduling, the last tie-break
	rank uint32 // order at one instant, lower first
	node int32
	slot int32
	kind eventKind
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.rank != o.rank {
		return e.rank < o.rank
	}
	return e.seq < o.seq
}

// queue is a 4-ary heap: half as deep as a binary one, and the four children are
// neighbors in memory.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

// keptEvents is the room that a queue keeps however few events it has. Beyond, it
// gives back what a burst has taken once a third of it is free.
const keptEvents = 1024

// pop takes the first event. The queue must not be empty.
func (q *queue) pop() event {
	h := *q
	first := h[0]
	last := h[len(h)-1]
	h = h[:len(h)-1]
	if cap(h) > keptEvents && len(h) < cap(h)/3*2 {
		h = append(make(queue, 0, len(h)*5/4), h...)
	}
	if *q = h; len(h) > 0 {
		h.sink(last)
	}
	return first
}

// sink puts e in place of the first event, which is gone.
func (q queue) sink(e event) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q) {
			break
		}
		best := child
		for c := child + 1; c < min(child+4, len(q)); c++ {
			if q[c].before(&q[best]) {
				best = c
			}
		}
		if !q[best].before(&e) {
			break
		}
		q[i] = q[best]
		i = best
	}
	q[i] = e
}
