package explore

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"padme/qosmutex/protocol"
)

// Result says how far a search came.
type Result struct {
	States      int
	Transitions int
	Depth       int  // of the deepest state that was met: actions from the start
	Fixpoint    bool // nothing new can happen; else the search met its bound
	Stills      int  // states in which the liveness of everybody was checked
	Moves       int  // transitions that gave somebody who is inside another parent
	Terms       int  // transitions in which somebody became the root
	Taken       [kindEnd]int
	Elapsed     time.Duration
}

// count counts a transition.
func (r *Result) count(a Action, e events) {
	r.Transitions++
	r.Taken[a.Kind]++
	if e.moved {
		r.Moves++
	}
	if e.appointed {
		r.Terms++
	}
}

// add adds up what was counted.
func (r *Result) add(o *Result) {
	r.Depth = max(r.Depth, o.Depth)
	r.Elapsed += o.Elapsed
	r.States += o.States
	r.Transitions += o.Transitions
	r.Stills += o.Stills
	r.Moves += o.Moves
	r.Terms += o.Terms
	for k, n := range o.Taken {
		r.Taken[k] += n
	}
}

// String is one line of figures.
func (r Result) String() string {
	how := "fixpoint"
	if !r.Fixpoint {
		how = "bounded"
	}
	s := fmt.Sprintf("%s: %d states, %d transitions, depth %d, liveness checked in %d, %v;", how, r.States, r.Transitions, r.Depth, r.Stills, r.Elapsed.Round(10*time.Millisecond))
	for k, n := range r.Taken {
		if n > 0 {
			s += fmt.Sprintf(" %v %d", Kind(k), n)
		}
	}
	return s + fmt.Sprintf("; moves of who is inside: %d, terms: %d", r.Moves, r.Terms)
}

// Violation is an invariant that does not hold, and how to get there.
type Violation struct {
	Trace Trace
	Err   error
}

// Error tells what is broken, and the trace as Replay reads it.
func (v *Violation) Error() string { return fmt.Sprintf("%v after\n%v", v.Err, v.Trace) }

// Unwrap returns what is broken.
func (v *Violation) Unwrap() error { return v.Err }

// visit is how a state was reached first.
type visit struct {
	from   int32
	action Action
}

// search is one search. It goes through the states nearest first for as long as there
// is room for a whole level of worlds, and then on from each of those in depth (see
// deep.go).
type search struct {
	cfg     *Config
	seen    *visited
	visits  []visit // of those nearest first
	workers []*worker
	served  *outcomes
	result  Result
}

// worker is what one of those that work side by side needs for itself.
type worker struct {
	hasher *hasher
	out    protocol.Output
}

// successor is what an action leads to.
type successor struct {
	action Action
	key    uint64
	world  *world // nil: known
	events
}

const (
	// batch is how many worlds are expanded side by side: enough to be worth the
	// waiting for each other, and few enough that their successors fit in memory.
	batch = 1 << 12
	// maxLevel is how many worlds, of some kilobytes each, a level may have.
	maxLevel = 1 << 17
)

// Explore searches all states that cfg allows. The error is a [*Violation], or says
// what is wrong with cfg. Searches may run concurrently.
func Explore(cfg Config) (Result, error) {
	begun := time.Now()
	w, err := newWorld(&cfg)
	if err != nil {
		return Result{}, err
	}
	seed := maphash.MakeSeed()
	s := &search{cfg: &cfg, seen: newVisited(&cfg), served: &outcomes{ticks: map[uint64]uint8{}}}
	for range runtime.GOMAXPROCS(0) {
		s.workers = append(s.workers, &worker{hasher: newHasher(seed)})
	}
	s.seen.add(s.workers[0].hasher.key(w), w)
	s.visits = append(s.visits, visit{from: -1})
	s.result.States = 1
	level := []*world{w}
	for err == nil && len(level) > 0 && !s.full() {
		if len(level) > maxLevel {
			err = s.deepen(level)
			break
		}
		level, err = s.next(level)
	}
	s.result.Fixpoint = err == nil && !s.full()
	s.result.Elapsed = time.Since(begun)
	return s.result, err
}

// full reports whether the search has met its bound.
func (s *search) full() bool {
	return s.cfg.MaxStates > 0 && s.result.States >= s.cfg.MaxStates
}

// next visits everything that follows from a level, whose states were the last to be
// visited, and returns the next level. Successors are computed side by side and then
// sorted out one after another, so that the outcome does not depend on how many
// processors there are.
func (s *search) next(level []*world) ([]*world, error) {
	var following []*world
	first := len(s.visits) - len(level)
	for at := 0; at < len(level) && !s.full(); at += batch {
		some := level[at:min(at+batch, len(level))]
		found := make([][]successor, len(some))
		s.sideBySide(len(some), func(w *worker, i int) {
			found[i] = s.expand(w, some[i])
			some[i] = nil // let its memory go
		})
		fresh := len(following)
		for i, list := range found {
			for _, c := range list {
				s.result.count(c.action, c.events)
				how := visit{int32(first + at + i), c.action}
				if c.world != nil && c.world.failure != nil {
					return nil, s.violation(c.world.failure, how)
				}
				if c.world != nil && s.seen.add(c.key, c.world) { // another of this batch may lead there, too
					s.visits = append(s.visits, how)
					following = append(following, c.world)
				}
			}
		}
		s.result.States = len(s.visits)
		if err := s.checkStills(following[fresh:]); err != nil {
			return nil, err
		}
	}
	if len(following) > 0 {
		s.result.Depth++
	}
	return following, nil
}

// expand lists what follows from a world.
func (s *search) expand(by *worker, w *world) []successor {
	actions := w.actions()
	list := make([]successor, len(actions))
	for i, a := range actions {
		c := w.after(a, &by.out)
		list[i] = successor{action: a, world: c, events: c.events}
		if c.failure == nil {
			list[i].key = by.hasher.key(c)
			if s.seen.knows(list[i].key, c) {
				list[i].world = nil
			}
		}
	}
	return list
}

// checkStills checks the liveness of everybody in the states that were visited last.
func (s *search) checkStills(fresh []*world) error {
	failures := make([]error, len(fresh))
	var stills atomic.Int64
	s.sideBySide(len(fresh), func(by *worker, i int) {
		if fresh[i].still() {
			stills.Add(1)
			failures[i] = by.checkStill(fresh[i], s.served)
		}
	})
	s.result.Stills += int(stills.Load())
	first := len(s.visits) - len(fresh)
	for i, err := range failures {
		if err != nil {
			return s.violation(err, s.visits[first+i])
		}
	}
	return nil
}

func (by *worker) checkStill(w *world, served *outcomes) error {
	end := w.copy(&by.out)
	end.checkStill(served, by.hasher)
	return end.failure
}

// sideBySide calls do for each number below n, and waits.
func (s *search) sideBySide(n int, do func(by *worker, i int)) {
	const some = 64 // at a time, or they would only wait for the counter
	var taken atomic.Int64
	var all sync.WaitGroup
	for _, by := range s.workers[:min(len(s.workers), n/some+1)] {
		all.Go(func() {
			for end := 0; end < n; {
				end = int(taken.Add(some))
				for i := end - some; i < min(end, n); i++ {
					do(by, i)
				}
			}
		})
	}
	all.Wait()
}

// violation says how the state was reached in which the last of some actions, after
// a visit, breaks something.
func (s *search) violation(err error, last visit, more ...Action) error {
	trace := Trace{Config: *s.cfg}
	for ; last.from >= 0; last = s.visits[last.from] {
		trace.Actions = append(trace.Actions, last.action)
	}
	slices.Reverse(trace.Actions)
	trace.Actions = append(trace.Actions, more...)
	return &Violation{trace, err}
}
