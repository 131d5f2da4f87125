package explore

import (
	"slices"
	"sync"
	"sync/atomic"
)

// deepen searches in depth what follows from the last level, and needs no more memory
// than the fingerprints. Most is found known if the worlds in which the most may still
// go wrong come first, and if in each world what goes wrong comes last. How many states
// that are, and a counterexample, depend a little on who is quicker.
func (s *search) deepen(level []*world) error {
	first := len(s.visits) - len(level)
	order := make([]int, len(level))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.seen.combination(level[b]) - s.seen.combination(level[a]) })
	var taken, states atomic.Int64
	states.Store(int64(s.result.States))
	var all sync.WaitGroup
	divers := make([]*diver, len(s.workers))
	for i, by := range s.workers {
		d := &diver{search: s, worker: by, states: &states}
		divers[i] = d
		all.Go(func() {
			for next := taken.Add(1) - 1; int(next) < len(order) && d.err == nil && !d.full(); next = taken.Add(1) - 1 {
				i := order[next]
				if d.dive(level[i]); d.err != nil {
					d.err = s.violation(d.err, s.visits[first+i], d.path()...)
					states.Add(endsAll)
				}
				level[i] = nil // let its memory go
			}
		})
	}
	all.Wait()
	var err error
	depth := s.result.Depth
	for _, d := range divers {
		d.result.Depth += depth
		s.result.add(&d.result)
		if d.err != nil {
			err = d.err
		}
	}
	return err
}

// endsAll is more than any bound on states: once there are as many, all end.
const endsAll = 1 << 50

// diver searches in depth.
type diver struct {
	*worker
	search *search
	states *atomic.Int64 // of all

	stack  []frame
	result Result // its part
	err    error
}

// frame is a world on the way down, and what is still to be tried in it.
type frame struct {
	world   *world
	actions []Action
	next    int
}

func (d *diver) full() bool {
	most := int64(d.search.cfg.MaxStates)
	if most == 0 {
		most = endsAll
	}
	return d.states.Load() >= most
}

// dive visits everything that follows from w. If something is broken, the stack says
// how.
func (d *diver) dive(w *world) {
	d.stack = append(d.stack[:0], frame{world: w, actions: w.actions()})
	for len(d.stack) > 0 && !d.full() {
		top := &d.stack[len(d.stack)-1]
		if top.next == len(top.actions) {
			top.world = nil
			d.stack = d.stack[:len(d.stack)-1]
			continue
		}
		a := top.actions[top.next]
		top.next++
		if c := d.try(top.world, a); d.err != nil {
			return
		} else if c != nil {
			d.stack = append(d.stack, frame{world: c, actions: c.actions()})
			d.result.Depth = max(d.result.Depth, len(d.stack)-1)
		}
	}
}

// try returns what an action leads to, if it is new.
func (d *diver) try(w *world, a Action) *world {
	c := w.after(a, &d.out)
	d.result.count(a, c.events)
	if d.err = c.failure; d.err != nil || !d.search.seen.add(d.hasher.key(c), c) {
		return nil
	}
	d.result.States++
	d.states.Add(1)
	if c.still() {
		d.result.Stills++
		d.err = d.checkStill(c, d.search.served)
	}
	return c
}

// path is the way down that broke something.
func (d *diver) path() []Action {
	path := make([]Action, len(d.stack))
	for i, f := range d.stack {
		path[i] = f.actions[f.next-1]
	}
	return path
}
