package simulation

import (
	"slices"

	"padme/qosmutex/protocol"
)

// cause is why whoever looks after a topic had to restart participants, because
// nothing else could help.
type cause string

const (
	majorityGone  cause = "a majority of the voters is gone for good"
	majorityEnded cause = "a majority of the voters ended, and came back as new incarnations"
	halfEnded     cause = "exactly half of the voters ended"
	onlyEnded     cause = "the only voter ended"
	noVoters      cause = "nobody who runs knows of voters"
	rootDeparted  cause = "the root departed, and its successor did not hear of it"
	heirEnded     cause = "a former root waits for a sign of its successor, which ended"
)

// causes lists them all. Only the first is one that no design can do without.
var causes = []cause{majorityGone, majorityEnded, halfEnded, onlyEnded, noVoters, rootDeparted, heirEnded}

// onlyExplained demands that nobody has to restart anything unless a majority of the
// voters is gone for good. The present design cannot promise that.
const onlyExplained = false

// whyNotElectable says why no root can be elected.
func (r *run) whyNotElectable() cause {
	newest := r.newestVoters()
	if len(newest) == 0 {
		return noVoters
	}
	ended, gone := 0, 0
	for _, v := range newest {
		i := slices.IndexFunc(r.members, func(m *member) bool { return m.id == v.ID })
		switch {
		case i < 0 || r.members[i].forGood || r.members[i].visitor && !r.members[i].up:
			gone++
			ended++
		case !r.members[i].up || r.sim.Node(v.ID) != v:
			ended++
		}
	}
	switch {
	case gone > len(newest)/2:
		return majorityGone
	case len(newest) == 1:
		return onlyEnded
	case 2*ended == len(newest):
		return halfEnded
	}
	return majorityEnded
}

// newestVoters are those of the newest set that anybody who runs knows of.
func (r *run) newestVoters() []protocol.Node {
	var newest protocol.Status
	for _, m := range r.up() {
		if s := r.sim.Status(m.id); len(s.Voters) > 0 && s.Named.Compare(newest.Named) > 0 {
			newest = s
		}
	}
	return newest.Voters
}
