package sla

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// maxPostponement keeps 2^(p+c) far from overflow.
const maxPostponement = 32

// Level is the SLA paper's "Level" heuristic (§III-A2) on [KanrarChakiPiggyback]: a
// request does not rise with every more important one that comes into the queue. To
// rise from value p-1 to p it must see 2^(p+c) of them. Values are those of [Levels]:
// the least important request, value 0, rises when it has seen 2^(1+c).
//
// c below 0 counts as 0, above 32 as 32. The larger it is, the fewer requests are
// overtaken by less important ones, and the longer the least important wait: in one
// queue at most 2^(1+c) + … + 2^(Levels-1+c) may come in front of one. Nobody
// starves.
//
// Messages: O(log N); some more than with KanrarChakiPiggyback, about 6.3 on 20
// participants of whom half wait, since a request is more often the most important
// one and goes on. Synchronization delay: the distance to the next participant. It
// assumes a static tree and FIFO channels that lose nothing. A crash cuts the tree
// where it happens: those on the side without the token wait for ever.
//
// The name is "level", with c unless it is [DefaultPostponement]: "level-c2".
func Level(c int) protocol.Algorithm {
	return level(c).algorithm(protocol.Algorithm{
		Name:     "level" + suffix(c),
		Source:   "Lejeune et al. (SLA paper) §III-A2",
		Messages: "O(log N), about 6 for 20 of whom half wait",
		Delay:    "1 t_m to the diameter of the tree",
	})
}

// LevelDistance is the SLA paper's "Level-Distance" heuristic (§III-A3): [Level], and
// of equally important requests the one whose participant is nearest to the queue
// comes first. Of equally near ones the one that came first does.
//
// Messages: somewhat fewer than Level, about 6.0 on 20 participants of whom half
// wait. Unlike with Level a request can starve: nearer ones of its own value come
// first however late they are, and do not make it rise. It waits until that demand
// ceases, or until more important ones have made it rise above. Synchronization
// delay, assumptions and what a crash does are Level's.
//
// The name is "level-distance", with c unless it is [DefaultPostponement]:
// "level-distance-c2".
func LevelDistance(c int) protocol.Algorithm {
	return levelDistance(c).algorithm(protocol.Algorithm{
		Name:     "level-distance" + suffix(c),
		Source:   "Lejeune et al. (SLA paper) §III-A3",
		Messages: "O(log N), about 6 for 20 of whom half wait",
		Delay:    "1 t_m to the diameter of the tree",
	})
}

func level(c int) rules { return rules{piggyback: true, overtaken: postponed(c)} }

func levelDistance(c int) rules {
	return rules{piggyback: true, nearest: true, overtaken: postponed(c)}
}

func suffix(c int) string {
	if c == DefaultPostponement {
		return ""
	}
	return fmt.Sprintf("-c%d", c)
}

// postponed returns the ageing of the Level heuristic.
func postponed(c int) func(*entry) {
	c = min(max(c, 0), maxPostponement)
	return func(e *entry) {
		e.count++
		if e.count >= int64(1)<<(e.value+1+int64(c)) {
			e.value++
			e.count = 0
		}
	}
}
