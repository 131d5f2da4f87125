package quorum

import (
	"slices"
	"time"

	"padme/qosmutex/internal/limited"
	"padme/qosmutex/register/caspaxos"
)

// Limits by what they have a voter drop or refuse.
const (
	limitRate = iota
	limitNames
	limitLine
	limitWaiting
	limitLines
	limitRequests
	limitKeys
	noLimit = -1
)

// voterLimits names each after its flag of "pubsub-node serve", which begins with max, or else after
// what it bounds.
var voterLimits = []limited.Limit{
	limitRate:     {Name: "max-voter-rate", Remedy: "have the participant keep fewer locks or use longer TTLs, make it a voter, or raise Options.Rate (--max-voter-rate)"},
	limitNames:    {Name: "max-voter-names", Remedy: "use resources of one lock in place of ever new locks; names are never deleted; or raise Options.Names (--max-voter-names)"},
	limitLine:     {Name: "voter-line", Remedy: "have the participant send less, or see whether the disk of the voter is slow"},
	limitWaiting:  {Name: "voter-waiting", Remedy: "see what is beyond max-voter-rate, or whether the disk of the voter is slow"},
	limitLines:    {Name: "voter-lines", Remedy: "remove accounts that nobody needs: more participants ask this voter than it has lines for"},
	limitRequests: {Name: "voter-requests", Remedy: "have the participant keep fewer locks, or see whether the other voters answer"},
	limitKeys:     {Name: "voter-keys", Remedy: "existing locks go on; begin another register with \"pubsub-node voters reset\", and have programs use resources in place of ever new locks"},
}

// most is what a limit is.
func (v *Voter) most(limit int) int {
	return []int{
		limitRate: v.opts.Rate, limitNames: v.opts.Names, limitLine: maxLine, limitWaiting: maxWaiting, limitLines: maxLines,
		limitRequests: caspaxos.MaxOpsPerClient, limitKeys: caspaxos.MaxKeys,
	}[limit]
}

// excess is a limit and who was beyond it, which is worth a line in the log.
type excess struct {
	limit int
	from  string
	voter bool
}

// beyond counts that a sender was beyond a limit. The caller holds mu, so it logs nothing.
func (t *turns) beyond(limit int, from string) {
	t.floods.Add(1)
	if t.reached != nil && t.reached.Count(limit, from, time.Now()) {
		t.untold = append(t.untold, excess{limit, from, slices.Contains(t.voters, from)})
	}
}

// tellLimits logs who was beyond limits since it was last called.
func (v *Voter) tellLimits() {
	v.turns.mu.Lock()
	untold := v.turns.untold
	v.turns.untold = nil
	v.turns.mu.Unlock()
	for _, e := range untold {
		most := v.most(e.limit)
		if e.limit == limitLine && e.voter {
			most = maxVoterLine
		}
		v.reached.Tell(e.limit, e.from, most)
	}
}

// refuses logs what the machine has refused since it was last asked.
func (v *Voter) refuses(s, was *caspaxos.Status) {
	for _, r := range []struct {
		limit, most int
		n, old      uint64
		to          string
	}{
		{limitNames, v.most(limitNames), s.Denied, was.Denied, s.DeniedTo},
		{limitKeys, v.most(limitKeys), s.Full, was.Full, s.FullTo},
		{limitRequests, caspaxos.MaxOps, s.Crowded, was.Crowded, v.opts.Self},
	} {
		tell := false
		for range r.n - r.old {
			tell = v.reached.Count(r.limit, r.to, time.Now()) || tell
		}
		if tell {
			v.reached.Tell(r.limit, r.to, r.most)
		}
	}
	if nearlyFull(s) && !nearlyFull(was) {
		v.log.Warn("the register is nearly full: soon no new lock can be created; see qosmutex_voter_names", "names", s.Names, "most", caspaxos.MaxKeys,
			"remedy", voterLimits[limitKeys].Remedy)
	}
}

// nearlyFull reports whether nine of ten names that a voter keeps at most are there.
func nearlyFull(s *caspaxos.Status) bool { return 10*s.Names >= 9*caspaxos.MaxKeys }
