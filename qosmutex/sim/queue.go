package sim

import "padme/qosmutex/protocol"

// eventKind says what an event in the queue is.
type eventKind uint8

const (
	eventAction    eventKind = iota // call actions[slot]
	eventLeave                      // the application of calls[slot] is done
	eventRequest                    // the workload of node asks again
	eventDeliver                    // packets[slot] reaches node
	eventReconnect                  // node has its network back
	eventTick                       // the machine of node asked to be woken
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
// neighbours in memory.
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

// pop takes the first event. The queue must not be empty.
func (q *queue) pop() event {
	h := *q
	first := h[0]
	last := h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		best := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(&h[best]) {
				best = c
			}
		}
		if !h[best].before(&last) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = last
	return first
}
