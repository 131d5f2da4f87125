package sla

import (
	"fmt"
	"strconv"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// DeadlineOptions choose a variant of the response-time algorithm.
type DeadlineOptions struct {
	// Acknowledge tells the requester that its request was accepted (the paper's
	// acknowledgement approach). Until then the request stands in nobody's way:
	// admission counts accepted requests only. Without it (the token approach) every
	// request counts from where it has passed, until it is refused; that saves the
	// acknowledgements.
	Acknowledge bool
	// Preempt is the paper's B: how many links the token may go astray to let a
	// request in before the one with the earliest deadline, where that one still
	// starts in time. 0: only requests of the participant that has the token. Below
	// 0: strictly the earliest deadline first.
	Preempt int
	// Literal leaves out the two checks that the paper does not have, so that accepted
	// requests miss their deadlines. It is there to show what the checks are for.
	Literal bool
}

// Deadline returns the response-time algorithm of the SLA paper (§III-B) in one
// variant: the earliest deadline is served first, on a static tree, and a request
// whose deadline cannot be promised is refused when it is made. A deadline is the
// latest start: Input.Within from the call.
//
// A request is promised its deadline if it fits between its neighbors in the order
// of deadlines even when everybody starts as late as allowed: from the deadline of
// the one before it, that one's critical section and the token's way from there
// must end by its deadline; and so must its own, for the one behind it. Each
// participant on the way to the token checks this among the requests that it knows,
// the one with the token among all. Two checks that the paper leaves out are made as
// well, without which even a lone request may be promised the impossible: a request
// with nobody before it must be reachable from where the token is, once the present
// critical section ends; and a request that meets the token on its way is checked
// again among those that came with it. A request also goes no further than from
// where an answer returns by its deadline, so that a deadline that passes without an
// answer is always a broken promise (ReasonMissed), never a late refusal.
//
// Messages per entry: the distance to the token upwards and downwards, the distance
// once more for the acknowledgement or the refusal. Synchronization delay: the
// distance to the next holder; with Preempt, that or less.
//
// It assumes that a message between neighbors takes at most Timing.Hop and that
// nobody stays longer than the Hold of its request. It does not assume the paper's
// synchronized clocks, only that they run equally fast, or that Hop has room for what
// they differ by meanwhile: on the wire deadlines are remaining times, and the
// receiver subtracts one Hop. That is exact if every message takes Hop; if they are
// faster, deadlines are taken to be earlier than they are, which breaks no promise.
//
// A participant has one request under way; its next one is considered when that is
// over, and refused if its own deadline has passed by then. Of a request without Hold
// the end is unknown, and nobody is promised a deadline after it. Requests without a
// deadline are never refused, come last, in order of clocks, and may starve. A crash
// stops everybody who needs the token or a message through the participant that
// crashed: their deadlines pass.
func Deadline(o DeadlineOptions) protocol.Algorithm {
	return protocol.Algorithm{
		Name:     o.name(),
		Source:   "Lejeune et al., Service Level Agreement for Distributed Mutual Exclusion in Cloud Computing, §III-B",
		Messages: o.messages(),
		Delay:    "distance to the next holder, O(log N)",
		Assumes:  "static tree; latency at most Timing.Hop; nobody stays longer than it said",
		Crash:    "stops all who need a path through it; waiting deadlines pass",
		Static:   true,
		New: func(cfg protocol.Config) (protocol.Machine, error) {
			tree, err := static.TreeOf(&cfg)
			if err != nil {
				return nil, err
			}
			if n := protocol.Duration(len(cfg.Members)); n > 0 && cfg.Timing.Hop > deadlineFarthest/(n+1) {
				return nil, fmt.Errorf("%w: hop %d s over %d participants", protocol.ErrInvalidConfig, cfg.Timing.Hop/protocol.Second, n)
			}
			return static.New(cfg, func(e *static.Env) static.Core { return newDeadlineCore(e, tree, o) })
		},
	}
}

// Deadlines lists the variants that keep their promises: the token approach, then
// the acknowledgement approach, each without preemption and with B = 0, 1 and 4.
func Deadlines() []protocol.Algorithm {
	var all []protocol.Algorithm
	for _, ack := range []bool{false, true} {
		for _, b := range []int{-1, 0, 1, 4} {
			all = append(all, Deadline(DeadlineOptions{Acknowledge: ack, Preempt: b}))
		}
	}
	return all
}

func (o DeadlineOptions) name() string {
	name := "edf-token"
	if o.Acknowledge {
		name = "edf-ack"
	}
	if o.Preempt >= 0 {
		name += "-b" + strconv.Itoa(o.Preempt)
	}
	if o.Literal {
		name += "-literal"
	}
	return name
}

func (o DeadlineOptions) messages() string {
	if o.Acknowledge {
		return "3 × distance to the token; refused: up to 2 × distance"
	}
	return "2 × distance to the token; refused: up to 2 × distance"
}
