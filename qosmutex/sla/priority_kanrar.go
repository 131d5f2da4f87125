package sla

import "padme/qosmutex/protocol"

// KanrarChaki is the algorithm of S. Kanrar and N. Chaki, "FAPP: A new fairness
// algorithm for priority process mutual exclusion in distributed systems", JNW
// 5(1), 2010, as the SLA paper states it in §II: Raymond's tree with queues in order
// of priority. A request that comes makes every less important one in that queue
// more important by one level.
//
// Messages: O(log N) on average, up to twice the diameter for one entry; a request
// goes farther than Raymond's when it is more important than those that wait. On 20
// participants of whom half wait, about 9. Synchronization delay: the distance to
// the next participant. It assumes a static tree and FIFO channels that lose
// nothing. A crash cuts the tree where it happens: those on the side without the
// token wait for ever. Nobody starves, and requests are overtaken often by less
// important ones: low values reach the highest soon.
var KanrarChaki = kanrarChaki.algorithm(protocol.Algorithm{
	Name:     "kanrar-chaki",
	Source:   "Kanrar and Chaki, JNW 5(1), 2010; Lejeune et al. (SLA paper) §II",
	Messages: "O(log N), about 9 for 20 of whom half wait",
	Delay:    "1 t_m to the diameter of the tree",
})

// KanrarChakiPiggyback is [KanrarChaki] with the optimization of the SLA paper
// §III-A1, which is Chang's: what a participant needs the token back for travels on
// the token and not in a request behind it.
//
// Messages: one less for every hop of the token that leaves requests behind; about 5
// where KanrarChaki needs 9. All the rest is as there.
var KanrarChakiPiggyback = kanrarChakiPiggyback.algorithm(protocol.Algorithm{
	Name:     "kanrar-chaki-piggyback",
	Source:   "Lejeune et al. (SLA paper) §III-A1",
	Messages: "O(log N), about 5 for 20 of whom half wait",
	Delay:    "1 t_m to the diameter of the tree",
})

var (
	kanrarChaki          = rules{overtaken: rise}
	kanrarChakiPiggyback = rules{piggyback: true, overtaken: rise}
)

// rise makes a request more important by one level. It is called only while a more
// important one is there, so that no value gets above those of new requests.
func rise(e *entry) { e.value++ }
