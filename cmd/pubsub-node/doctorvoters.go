package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"padme/qosmutex"
)

// examineVoters looks at the voters, and at whether they are quick enough.
func examineVoters(seen *survey, views []qosmutex.View) []finding {
	lines := seen.lines()
	if len(lines) == 0 {
		if missing := missingVoters(views); len(missing) > 0 {
			return []finding{{"voters", resultBad, fmt.Sprintf("none answers, and the roots lacked %s before: start all of \"pubsub-node serve --voters\"", strings.Join(missing, ","))}}
		}
		return nil
	}
	verdict := finding{"voters", resultOK, seen.verdict()}
	var found []finding
	for _, l := range lines {
		if !l.fine() {
			verdict.Result = resultBad
			found = append(found, finding{"voters", resultBad, fmt.Sprintf("%s %s: %s", l.Voter, l.State, l.Problem)})
		}
	}
	found = append([]finding{verdict}, found...)
	if need, ok := seen.writeTakes(); ok {
		found = append(found, examineLeases(need, views)...)
	}
	return found
}

// writeTakes is how long a write to the register takes: two round trips to the quickest
// majority, and its slowest write to disk.
func (v *survey) writeTakes() (time.Duration, bool) {
	newest := v.newest()
	if newest == nil {
		return 0, false
	}
	type cost struct{ trip, sync float64 }
	var costs []cost
	for _, m := range newest.Voters {
		if r, ok := v.reports[m.ID]; ok {
			costs = append(costs, cost{v.trips[m.ID].Seconds(), r.Sync})
		}
	}
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(2*a.trip+a.sync, 2*b.trip+b.sync) })
	majority := len(newest.Voters)/2 + 1
	if len(costs) < majority {
		return 0, false
	}
	var trip, sync float64
	for _, c := range costs[:majority] {
		trip, sync = max(trip, c.trip), max(sync, c.sync)
	}
	return time.Duration((2*trip + sync) * float64(time.Second)), true
}

// examineLeases compares what a write takes with the leases of the locks. The root writes
// every quarter of a lease and expects an answer within an eighth.
func examineLeases(need time.Duration, views []qosmutex.View) []finding {
	var found []finding
	for _, v := range views {
		ttl := time.Duration(min(v.TTL, 1e6) * float64(time.Second))
		lease := ttl / 2
		f := finding{"lease", resultOK, fmt.Sprintf("%s: a write takes %v, and the lease is %v", v.Topic, need.Round(time.Microsecond), lease)}
		switch {
		case need > lease/2:
			f.Result = resultBad
			f.Detail += fmt.Sprintf(": that cannot work: create the lock with a time-to-live of %v at least, or have quicker disks or links", (4 * need).Round(10*time.Millisecond))
		case need > lease/8:
			f.Result = resultNote
			f.Detail += fmt.Sprintf(": it is slow: renewals are repeated; a time-to-live of %v would do", (16 * need).Round(10*time.Millisecond))
		}
		found = append(found, f)
	}
	return found
}
