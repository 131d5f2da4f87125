package sla

import "padme/qosmutex/protocol"

// Chang is the algorithm of Y.-I. Chang, "Design of mutual exclusion algorithms for
// real-time distributed systems", J. Inf. Sci. Eng. 11(4), 1994, as the SLA paper
// states it in §II: Raymond's tree with queues in order of priority, where requests
// age by the entries that are made. Who leaves the critical section makes all that
// wait in its queue more important by one level. The token counts the entries; where
// it comes back, the requests that were there when it left grow by as many levels as
// entries were made meanwhile. Values grow without bound, beyond those of any new
// request. What a participant needs the token back for travels on the token.
//
// The paper lets requests also age where a participant that has the token and does
// not want it receives a request. Such a participant gives the token away at once, so
// that nothing is left in its queue that could age.
//
// Messages: O(log N), the fewest where priorities count: on 20 participants of whom
// half wait, about 4.9. Synchronization delay: the distance to the next participant.
// It assumes a static tree and FIFO channels that lose nothing. A crash cuts the tree
// where it happens: those on the side without the token wait for ever. Nobody starves;
// it comes closest to first come, first served, so that more requests than elsewhere
// are overtaken by less important ones.
var Chang = chang.algorithm(protocol.Algorithm{
	Name:     "chang",
	Source:   "Chang, J. Inf. Sci. Eng. 11(4), 1994; Lejeune et al. (SLA paper) §II",
	Messages: "O(log N), about 5 for 20 of whom half wait",
	Delay:    "1 t_m to the diameter of the tree",
})

var chang = rules{piggyback: true, executed: true}

// grow makes all that wait more important by n levels.
func (q queue) grow(n uint64) {
	for i := range q {
		q[i].grow(n)
	}
}

// growOld does so with those that were there when the token last left.
func (q queue) growOld(n uint64, r *rules) {
	for i := range q {
		if q[i].old {
			q[i].grow(n)
		}
	}
	q.sort(r)
}

func (e *entry) grow(n uint64) {
	e.value += int64(min(n, uint64(maxValue-e.value)))
}
