//go:build linux

package faults

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is what happens to a resource: an entry with this fence, or the end of it.
type step struct {
	resource string
	fence    uint64
	end      bool
}

// register is the state of a resource: the highest fence that entered, and the
// one that is inside, validly; 0 means none.
type register struct{ last, inside uint64 }

// lockModel is a lock with fences. An entry needs that nobody is inside and that
// its fence exceeds all before.
var lockModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[string]int{}
		for _, op := range history {
			resource := op.Input.(step).resource
			if _, ok := of[resource]; !ok {
				of[resource] = len(parts)
				parts = append(parts, nil)
			}
			parts[of[resource]] = append(parts[of[resource]], op)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		r, s := state.(register), input.(step)
		if s.end {
			return r.inside == s.fence, register{last: r.last}
		}
		return r.inside == 0 && s.fence > r.last, register{last: s.fence, inside: s.fence}
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(step)
		if s.end {
			return fmt.Sprintf("%s ends %d", s.resource, s.fence)
		}
		return fmt.Sprintf("%s entered by %d", s.resource, s.fence)
	},
}

// operations makes of a process's history what the model is about.
//
// A hold is entered between call and return of Lock. It ends after the last Check
// that passed and before the first that did not, or before Unlock returned; in a
// process that was killed inside, any time later. A Lock that never returned may
// have entered, but nobody was told: it is left out, which forbids nothing.
func operations(events []event) (ops []porcupine.Operation) {
	type hold struct {
		event
		since instant // last known to be valid
		over  bool
	}
	calls := map[string]instant{}
	holds := map[uint64]*hold{} // fences of different resources may be equal, but one is inside at a time
	end := func(h *hold, at instant) {
		h.over = true
		ops = append(ops, porcupine.Operation{Input: step{h.resource, h.fence, true}, Call: int64(h.since), Return: int64(at)})
	}
	for _, e := range events {
		switch e.what {
		case called:
			for _, h := range holds {
				if !h.over {
					end(h, e.at)
				}
			}
			clear(holds)
			calls[e.resource] = e.at
		case got:
			ops = append(ops, porcupine.Operation{Input: step{e.resource, e.fence, false}, Call: int64(calls[e.resource]), Return: int64(e.at)})
			holds[e.fence] = &hold{event: e, since: calls[e.resource]}
		case valid:
			if h := holds[e.fence]; h != nil && !h.over {
				h.since = max(h.since, e.at)
			}
		case ended, lost:
			if h := holds[e.fence]; h != nil && !h.over {
				end(h, e.at)
			}
		}
	}
	for _, h := range holds {
		if !h.over {
			end(h, math.MaxInt64)
		}
	}
	return ops
}

// check judges histories together.
func check(t testing.TB, histories ...[]event) porcupine.CheckResult {
	t.Helper()
	var all []porcupine.Operation
	for client, events := range histories {
		for _, op := range operations(events) {
			op.ClientId = client
			all = append(all, op)
		}
	}
	if len(all) == 0 {
		t.Error("nothing to check: nobody entered")
	}
	return porcupine.CheckOperationsTimeout(lockModel, all, 2*time.Minute)
}
