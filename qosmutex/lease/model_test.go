package lease_test

import (
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/canonical"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// modelSearch goes through every state of a model, nearest first.
type modelSearch struct {
	seed        maphash.Seed
	seen        map[uint64]struct{}
	visits      []modelVisit
	transitions int
	names       canonical.Names
	form        []byte
	lively      map[uint64]int // by state: how many fair ticks until one acts for good
	slowest     int
	taken       [modelKinds]int
}

type modelVisit struct {
	from   int32
	action modelAction
}

func (s *modelSearch) key(w *model) uint64 {
	s.form = w.form(s.form, &s.names)
	return maphash.Bytes(s.seed, s.form)
}

// explore goes on until nothing new can happen, and returns an error with a trace if an
// invariant does not hold somewhere.
func explore(cfg *modelConfig) (s *modelSearch, err error) {
	s = &modelSearch{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, lively: map[uint64]int{}}
	first := newModel(cfg)
	s.seen[s.key(first)] = struct{}{}
	s.visits = append(s.visits, modelVisit{from: -1})
	level, base := []*model{first}, 0
	var actions []modelAction
	for len(level) > 0 {
		var next []*model
		for at, w := range level {
			level[at] = nil
			actions = w.actions(actions[:0])
			for _, a := range actions {
				s.transitions++
				s.taken[a.kind]++
				c := w.after(a)
				if c.watch.failure != nil {
					return s, s.violation(cfg, c.watch.failure, modelVisit{int32(base + at), a})
				}
				k := s.key(c)
				if _, ok := s.seen[k]; ok {
					continue
				}
				s.seen[k] = struct{}{}
				s.visits = append(s.visits, modelVisit{int32(base + at), a})
				if err := s.alive(c); err != nil {
					return s, s.violation(cfg, err, s.visits[len(s.visits)-1])
				}
				next = append(next, c)
			}
		}
		base += len(level)
		level = next
	}
	return s, nil
}

// violation replays how the state was reached.
func (s *modelSearch) violation(cfg *modelConfig, err error, last modelVisit) error {
	trace := []modelAction{last.action}
	for v := last; v.from > 0; {
		v = s.visits[v.from]
		trace = append(trace, v.action)
	}
	w := newModel(cfg)
	w.log = &strings.Builder{}
	for i := len(trace) - 1; i >= 0; i-- {
		fmt.Fprintf(w.log, "%v\n", trace[i])
		w.do(trace[i])
	}
	return fmt.Errorf("%w after %d actions:\n%s", err, len(trace), w.log)
}

const (
	// modelBound is within how many ticks a candidate acts once nothing goes wrong any more:
	// two waits of a slow clock (of 6 ticks each) for what took effect late, and the queue.
	modelBound = 20
	modelStays = 6 // for as many ticks it then acts without a gap, at least
)

// alive checks that a candidate acts soon if from now on nothing goes wrong.
func (s *modelSearch) alive(w *model) error {
	c := w.clone()
	c.fair()
	var path []uint64
	left, stays := 0, 0
	for ; ; left++ {
		k := s.key(c)
		if n, ok := s.lively[k]; ok {
			left += n
			break
		}
		path = append(path, k)
		if left > modelBound+modelStays {
			return fmt.Errorf("no candidate acts after %d ticks in which nothing goes wrong", left)
		}
		if c.round(); c.watch.failure != nil {
			return fmt.Errorf("when nothing goes wrong any more: %w", c.watch.failure)
		}
		if stays++; !c.acted() {
			stays = 0
		}
		if stays == modelStays {
			break
		}
	}
	for i, k := range path {
		s.lively[k] = left - i
	}
	s.slowest = max(s.slowest, left-modelStays)
	return nil
}

// fair ends every fault.
func (w *model) fair() {
	w.budget = [modelKinds]int8{}
	for len(w.ghosts) > 0 && w.shut == 0 { // those that lose a race change nothing
		w.do(modelAction{kind: modelLand})
	}
	w.ghosts = nil
	running := false
	for i := range w.cfg.rates {
		n := &w.nodes[i]
		if n.paused {
			w.do(modelAction{kind: modelResume, i: uint8(i)})
		}
		if n.cut {
			w.do(modelAction{kind: modelHeal, i: uint8(i)})
		}
		running = running || w.runs(i)
	}
	if !running {
		w.start(0)
	}
	w.settle()
}

// settle has everything arrive that is under way.
func (w *model) settle() {
	for again := true; again; {
		again = false
		for i := range w.cfg.rates {
			n := &w.nodes[i]
			if w.runs(i) && n.op.kind != lease.NoRequest && w.shut == 0 {
				if !n.op.served {
					w.do(modelAction{kind: modelServe, i: uint8(i)})
				}
				w.do(modelAction{kind: modelDeliver, i: uint8(i)})
				again = true
			}
		}
	}
	w.beacons()
	w.check()
}

// round is a tick in which everything arrives.
func (w *model) round() {
	w.tick()
	w.settle()
}

func (w *model) acted() bool {
	for i := range w.cfg.rates {
		if w.nodes[i].acts() {
			return true
		}
	}
	return false
}

func (s *modelSearch) String() string {
	t := fmt.Sprintf("%d states, %d transitions, at most %d ticks until one acts;", len(s.visits), s.transitions, s.slowest)
	for k, n := range s.taken {
		if n > 0 {
			t += fmt.Sprintf(" %s %d", modelNames[k], n)
		}
	}
	return t
}

var (
	allModels = flag.Bool("model.all", false, "TestModel: explore the large worlds, too")
	oneModel  = flag.String("model.one", "", "TestModel: explore the one world of this name, as it prints it")
)

// budgets is what may go wrong in a world.
type budgets = map[modelKind]int8

// modelRows are the worlds that every run of the tests explores to the fixpoint, and
// those that only -model.all does.
func modelRows() (small, large []modelConfig) {
	two := []protocol.Duration{modelSlow, modelFast}
	three := []protocol.Duration{modelFast, modelSlow, modelFast}
	small = []modelConfig{
		{rates: two, slow: 1, budget: budgets{modelTimeout: 1}},
		{rates: two, budget: budgets{modelCrash: 1, modelLinger: 1}},
		{rates: two, prompt: true, budget: budgets{modelSuccessor: 1, modelTimeout: 1, modelLinger: 1, modelCrash: 1}},
		{rates: two, prompt: true, budget: budgets{modelForget: 1, modelTimeout: 1, modelCrash: 1}},
		{rates: two, places: true, local: true, budget: budgets{modelCrash: 1}},
		{rates: two, prompt: true, places: true, local: true, budget: budgets{modelCrash: 2, modelRestart: 2}},
		{rates: two, prompt: true, budget: budgets{modelResign: 1, modelTimeout: 1, modelLinger: 1}},
		{rates: two, prompt: true, budget: budgets{modelRaise: 1, modelTimeout: 1, modelCrash: 1}},
		{rates: two, prompt: true, budget: budgets{modelCut: 1, modelTimeout: 1}},
		{rates: two, prompt: true, budget: budgets{modelPause: 1, modelTimeout: 1}},
		{rates: three, prompt: true, budget: budgets{modelSuccessor: 1, modelCrash: 1}},
	}
	large = []modelConfig{
		{rates: two, slow: 1, budget: budgets{modelTimeout: 1, modelLinger: 1}},
		{rates: two, slow: 1, budget: budgets{modelTimeout: 1, modelCrash: 1}},
		{rates: two, prompt: true, slow: 1, budget: budgets{modelTimeout: 2, modelLinger: 1, modelCrash: 1}},
		{rates: two, prompt: true, budget: budgets{modelTimeout: 2, modelLinger: 1, modelCrash: 1, modelRestart: 1}},
		{rates: two, prompt: true, budget: budgets{modelSuccessor: 2, modelTimeout: 2, modelLinger: 1}},
		{rates: two, prompt: true, budget: budgets{modelForget: 2, modelTimeout: 2, modelLinger: 1, modelCrash: 1}},
		{rates: two, prompt: true, places: true, local: true, budget: budgets{modelCrash: 2, modelRestart: 2, modelLinger: 1, modelTimeout: 1}},
		{rates: two, prompt: true, places: true, budget: budgets{modelCrash: 2, modelRestart: 2, modelLinger: 1}},
		{rates: two, prompt: true, budget: budgets{modelResign: 1, modelRaise: 1, modelTimeout: 1, modelLinger: 1}},
		{rates: two, prompt: true, budget: budgets{modelCut: 1, modelPause: 1, modelTimeout: 1}},
		{rates: three, prompt: true, budget: budgets{modelTimeout: 1, modelLinger: 1, modelCrash: 1}},
		{rates: three, prompt: true, budget: budgets{modelSuccessor: 1, modelTimeout: 1, modelCrash: 1}},
		{rates: three, budget: budgets{modelCrash: 1}},
	}
	return small, large
}

// TestModel explores small worlds to their fixpoint. The large ones take some minutes:
//
//	go test ./qosmutex/lease -run TestModel -v -model.all
func TestModel(t *testing.T) {
	rows, large := modelRows()
	if *allModels || *oneModel != "" {
		rows = append(rows, large...)
	}
	for _, row := range rows {
		if *oneModel != "" && *oneModel != row.String() {
			continue
		}
		t.Run(row.String(), func(t *testing.T) {
			start := time.Now()
			s, err := explore(&row)
			if t.Logf("%v; %v", s, time.Since(start).Round(10*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSameFormSameFuture: two worlds that are reached in different ways and have the same
// form have the same futures, so that exploring one of them is enough.
func TestSameFormSameFuture(t *testing.T) {
	for _, row := range []modelConfig{
		{rates: []protocol.Duration{modelSlow, modelFast}, budget: budgets{modelCrash: 1, modelTimeout: 1}},
		{rates: []protocol.Duration{modelSlow, modelFast}, prompt: true, budget: budgets{modelSuccessor: 1, modelRaise: 1, modelCut: 1, modelForget: 1}},
	} {
		s := &modelSearch{seed: maphash.MakeSeed()}
		future := func(w *model) (keys []uint64) {
			for _, a := range w.actions(nil) {
				keys = append(keys, s.key(w.after(a)))
			}
			slices.Sort(keys) // ghosts are numbered in the order in which they came
			return keys
		}
		futures := map[uint64][]uint64{}
		first := newModel(&row)
		first.settle() // the names do not show by how much the first fences differ
		level, twins := []*model{first}, 0
		for len(level) > 0 && len(futures) < 8000 {
			var next []*model
			for _, w := range level {
				for _, a := range w.actions(nil) {
					c := w.after(a)
					if c.watch.failure != nil {
						t.Fatal(c.watch.failure)
					}
					k := s.key(c)
					if known, ok := futures[k]; !ok {
						futures[k] = future(c)
						next = append(next, c)
					} else if twins++; !slices.Equal(known, future(c)) {
						t.Fatalf("%v: two worlds of one form differ after %v", row.String(), a)
					}
				}
			}
			level = next
		}
		t.Logf("%v: %d forms, %d twins", row.String(), len(futures), twins)
		if twins < 1000 {
			t.Error("hardly any two worlds had the same form")
		}
	}
}

// String names a world by what may happen in it.
func (c *modelConfig) String() string {
	s := ""
	for _, r := range c.rates {
		s += map[protocol.Duration]string{modelSlow: "s", modelEven: "e", modelFast: "f"}[r]
	}
	if c.prompt {
		s += ",prompt"
	}
	if c.slow > 0 {
		s += fmt.Sprintf(",slow=%d", c.slow)
	}
	if c.places {
		s += ",places"
	}
	if c.local {
		s += ",local"
	}
	for k := modelFaults; k < modelKinds; k++ {
		if n := c.budget[k]; n > 0 {
			s += fmt.Sprintf(",%s=%d", modelNames[k], n)
		}
	}
	return s
}
