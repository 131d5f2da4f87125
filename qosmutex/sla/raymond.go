package sla

import "padme/qosmutex/protocol"

// Raymond is the algorithm of K. Raymond, "A Tree-Based Algorithm for Distributed
// Mutual Exclusion", ACM TOCS 7(1), 1989, as the SLA paper states it in §II: every
// queue is first come, first served, and priorities are ignored.
//
// Messages: an isolated request costs exactly 2·distance, its requests there and
// the token back; on 20 participants of whom half wait about 4.5, since requests are
// not passed on where others wait already. Synchronization delay: the distance to the next participant, up to the
// diameter of the tree. It assumes a static tree and FIFO channels that lose
// nothing. A crash cuts the tree where it happens: those on the side without the
// token wait for ever, and if the token was there nobody enters any more. Nobody
// starves.
var Raymond = raymond.algorithm(protocol.Algorithm{
	Name:     "raymond",
	Source:   "Raymond, ACM TOCS 7(1), 1989; Lejeune et al. (SLA paper) §II",
	Messages: "2·distance to the token, O(log N)",
	Delay:    "1 t_m to the diameter of the tree",
})

var raymond = rules{blind: true}
