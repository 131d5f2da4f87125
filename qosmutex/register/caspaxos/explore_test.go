package caspaxos

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// next appends the worlds that follow from w, or returns what is wrong with one.
func (e *explorer) next(w *world) error {
	for voter := range w.machines {
		n := w.machines[voter]
		if n < 0 || strings.Contains(e.scenario.dead, names[voter]) {
			continue
		}
		m := e.machines[n]
		for _, id := range w.net {
			if e.messages[id].To == names[voter] {
				if err := e.move(w, voter, id, nil); err != nil {
					return err
				}
			}
		}
		if m.canRetry(e.attempts) {
			if err := e.move(w, voter, retry, nil); err != nil {
				return err
			}
		}
		if w.ghost.quiet&(1<<voter) != 0 {
			if err := e.move(w, voter, calm, e.forget); err != nil {
				return err
			}
		}
		c := w.ghost.ops[voter]
		if !c.running && int(c.done) < len(e.scripts[voter]) && m.config != nil {
			if err := e.move(w, voter, ask, e.asked); err != nil {
				return err
			}
		}
		e.faults(w, voter)
	}
	return nil
}

// asked notes what is known when an application asks.
func (e *explorer) asked(g *ghost, voter int) {
	c := &g.ops[voter]
	c.running, c.floor = true, g.acked
	if s := e.scripts[voter][c.done]; !s.read && s.replace == "" {
		g.parents[e.writeNonce(voter, c.done)] = c.knows
	}
}

// forget notes that a voter answers again, which has forgotten renewals.
func (e *explorer) forget(g *ghost, voter int) {
	g.quiet &^= 1 << voter
	g.votes = slices.Clone(g.votes)
	for i := range g.votes {
		v := &g.votes[i]
		if v.lost&(1<<voter) == 0 {
			continue
		}
		v.by &^= 1 << voter
		// Who asked before may have heard of others before they accepted it, too.
		for i := range g.ops {
			if g.ops[i].floor == v.nonce {
				g.ops[i].floor = e.firmOf(g, v.nonce)
			}
		}
	}
	g.acked = e.held(g, g.acked)
}

// move makes a step and keeps where it leads, if that is new.
func (e *explorer) move(w *world, voter int, action int32, note func(*ghost, int)) error {
	ef := e.do(w, voter, action)
	if action >= 0 && ef.machine == w.machines[voter] && len(ef.answers) == 0 && len(insert(w.net, ef.sent)) == len(w.net) {
		return nil
	}
	e.moves++
	c := *w
	if e.keepTrace {
		c.trace = &step{e.name(voter, action), w.trace}
	}
	c.machines[voter] = ef.machine
	c.net = insert(w.net, ef.sent)
	if note != nil {
		note(&c.ghost, voter)
	}
	for _, v := range ef.votes {
		if err := e.voted(&c.ghost, voter, v); err != nil {
			return fmt.Errorf("%w%v", err, c.trace)
		}
	}
	for i := range ef.answers {
		if err := e.told(&c.ghost, voter, &ef.answers[i]); err != nil {
			return fmt.Errorf("%w%v", err, c.trace)
		}
	}
	e.keep(&c)
	return nil
}

func (e *explorer) name(voter int, action int32) string {
	switch action {
	case retry:
		return names[voter] + " tries again"
	case calm:
		return names[voter] + " has been quiet for long enough"
	case ask:
		return names[voter] + " asks"
	}
	msg := e.messages[action]
	return fmt.Sprintf("%s receives %v of %s: %+v", names[voter], msg.Kind, msg.From, *msg)
}

func (e *explorer) keep(w *world) {
	e.prune(w)
	key := e.key(w)
	if _, ok := e.seen[key]; ok {
		return
	}
	e.seen[key] = struct{}{}
	e.states++
	e.stack = append(e.stack, w)
}

// faults restarts or wipes a voter.
func (e *explorer) faults(w *world, voter int) {
	if w.restarts > 0 && strings.Contains(e.only, names[voter]) {
		c := e.fault(w, names[voter]+" restarts")
		c.restarts--
		e.restart(c, voter)
		e.keep(c)
	}
	if w.power > 0 && voter == 0 {
		c := e.fault(w, "all restart")
		c.power--
		for i := range 3 {
			e.restart(c, i)
		}
		e.keep(c)
	}
	if w.wipes > 0 && voter == 2 {
		c := e.fault(w, names[voter]+" is wiped")
		c.wipes--
		c.stop(voter)
		c.machines[voter] = e.boot(voter, 1|1<<40, file{}, c)
		e.keep(c)
	}
}

func (e *explorer) fault(w *world, what string) *world {
	c := *w
	if e.keepTrace {
		c.trace = &step{what, w.trace}
	}
	return &c
}

func (e *explorer) restart(w *world, voter int) {
	n := w.machines[voter]
	w.stop(voter)
	w.ghost.votes = slices.Clone(w.ghost.votes)
	for i := range w.ghost.votes {
		if v := &w.ghost.votes[i]; v.by&(1<<voter) != 0 && e.isRenewal(v.nonce) && !e.killed {
			v.lost |= 1 << voter
		}
	}
	w.machines[voter] = e.boot(voter, e.machines[n].opts.Boot>>32+1, e.files[n], w)
}

// stop ends what the application of a voter was about. Nobody tells it how it ended.
func (w *world) stop(voter int) {
	c := &w.ghost.ops[voter]
	if c.running {
		c.running = false
		c.done++
	}
}

// run explores everything, depth first.
func (e *explorer) run(w *world, most int) error {
	e.keep(w)
	for len(e.stack) > 0 {
		w := e.stack[len(e.stack)-1]
		e.stack = e.stack[:len(e.stack)-1]
		if err := e.next(w); err != nil {
			return err
		}
		if e.states > most {
			return fmt.Errorf("%w: more than %d states", errBounded, most)
		}
	}
	return nil
}

var errBounded = errors.New("no fixpoint")

var most = flag.Int("states", 0, "bound on the states of one scenario of the model checker; 0: its own, if it has one")

// limit is how many states of a scenario are explored.
func (s *scenario) limit() int {
	const memory = 20_000_000
	switch {
	case *most > 0:
		return *most
	case s.bound > 0:
		return s.bound
	}
	return memory
}

var scenarios = []scenario{
	{name: "two create", scripts: [4][]script{{{}}, {{}}}, attempts: 1},
	{name: "two create, and try again", scripts: [4][]script{{{}}, {{}}}, bound: 100_000},
	{name: "two create, a third reads", scripts: [4][]script{{{}}, {{}}, {{read: true}}}, attempts: 1},
	{name: "a voter restarts", scripts: [4][]script{{{}}, {{}}}, attempts: 1, restarts: 1},
	{name: "two were begun, a voter restarts", scripts: [4][]script{{}, {{read: true}}, {{read: true}}}, split: true, attempts: 1, restarts: 1, only: "A"},
	{name: "reads race renewals", scripts: [4][]script{{{renewal: true}, {renewal: true}}, {{read: true}, {read: true}}}, existing: true, attempts: 1},
	{name: "a renewal, a take-over, a restart", scripts: [4][]script{{{renewal: true}}, {{}}}, existing: true, attempts: 1, restarts: 1},
	{name: "a renewal, a read, all restart", scripts: [4][]script{{{renewal: true}}, {{read: true}}}, existing: true, attempts: 1, power: 1},
	{name: "a renewal, a read, all are killed", scripts: [4][]script{{{renewal: true}}, {{read: true}}}, existing: true, attempts: 1, power: 1, killed: true},
	{name: "a renewal, a take-over, one is killed", scripts: [4][]script{{{renewal: true}}, {{}}}, existing: true, attempts: 1, restarts: 1, killed: true},
	{name: "two renewals, a read, one is killed twice", scripts: [4][]script{{{renewal: true}, {renewal: true}}, {{read: true}}}, existing: true, attempts: 1, restarts: 2, killed: true, bound: 100_000},
	{name: "a replacement, a renewal, one is killed", scripts: [4][]script{{{replace: "C"}}, {{renewal: true}}}, existing: true, attempts: 1, dead: "C", restarts: 1, only: "AB", killed: true, bound: 300_000},
	{name: "two create, all restart", scripts: [4][]script{{{}}, {{}}}, attempts: 1, power: 1},
	{name: "a wiped voter", scripts: [4][]script{{{}}, {{}}}, attempts: 1, wipes: 1},
	{name: "a replacement", scripts: [4][]script{{{replace: "C"}}, {{}}}, existing: true, attempts: 1, dead: "C"},
	{name: "a replacement, the new one reads", scripts: [4][]script{{{replace: "C"}}, {{}}, {}, {{read: true}}}, existing: true, attempts: 1, dead: "C"},
	{name: "a replacement, a restart", scripts: [4][]script{{{replace: "C"}}, {}}, existing: true, attempts: 1, dead: "C", restarts: 1, only: "AB"},
	{name: "two replacements at once", scripts: [4][]script{{{replace: "C"}}, {{replace: "C"}}}, existing: true, attempts: 1, dead: "C"},
	{name: "a replacement of one that lives", scripts: [4][]script{{{replace: "C"}}, {}, {{}}}, existing: true, attempts: 1, bound: 100_000},
}

func TestExplore(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			begun := time.Now()
			e, w := newExplorer(s)
			err := e.run(w, s.limit())
			t.Logf("%d states, %d moves, %d states of a machine, %d messages, answers %v, %v",
				e.states, e.moves, len(e.machines), len(e.messages), e.answers, time.Since(begun).Round(time.Millisecond))
			if errors.Is(err, errBounded) && s.bound == 0 {
				t.Fatal(err)
			}
			if err != nil && !errors.Is(err, errBounded) {
				e, w = newExplorer(s)
				e.keepTrace = true
				t.Fatal(e.run(w, s.limit()))
			}
		})
	}
}

// walk takes one random way through the worlds of a scenario.
func (e *explorer) walk(w *world, random *rand.Rand) error {
	for steps := 0; steps < 300; steps++ {
		e.seen, e.stack = map[uint64]struct{}{}, e.stack[:0]
		if err := e.next(w); err != nil {
			return err
		}
		if len(e.stack) == 0 {
			return nil
		}
		e.states++
		w = e.stack[random.IntN(len(e.stack))]
	}
	return nil
}

var walks = flag.Int("walks", 300, "random walks of each scenario that is too large to explore")

// TestWalk walks at random through scenarios that are too large to explore.
func TestWalk(t *testing.T) {
	for _, s := range []scenario{
		{name: "two write and try again", scripts: [4][]script{{{}, {}}, {{}, {renewal: true}}, {{read: true}, {}}}, restarts: 2, power: 1, attempts: 3},
		{name: "one that lives is replaced", scripts: [4][]script{{{replace: "C"}}, {{}}, {{}}, {{read: true}}}, existing: true},
		{name: "one that lives is replaced, restarts", scripts: [4][]script{{{replace: "C"}, {}}, {{}, {renewal: true}}, {{}}, {{read: true}, {}}}, existing: true, restarts: 2, attempts: 3},
		{name: "two replace", scripts: [4][]script{{{replace: "C"}, {}}, {{replace: "A"}}, {{}}, {{read: true}}}, existing: true, attempts: 3},
	} {
		t.Run(s.name, func(t *testing.T) {
			e, w := newExplorer(s)
			e.keepTrace = true
			for n := range *walks {
				if err := e.walk(w, rand.New(rand.NewPCG(uint64(n), 1))); err != nil {
					t.Fatalf("walk %d: %v", n, err)
				}
			}
			t.Logf("%d walks, %d steps, %d moves, %d states of a machine, answers %v, %d installed", *walks, e.states, e.moves, len(e.machines), e.answers, e.installed)
		})
	}
}

// The model checker sees what a voter must not do.
func TestExploreFindsMutants(t *testing.T) {
	for _, s := range []scenario{
		{
			name:    "a restarted voter answers at once",
			scripts: [4][]script{{{renewal: true}}, {{read: true}}}, existing: true, attempts: 1, restarts: 1,
			mutant: func(m *Machine) { m.quiet = 0 },
		},
		{
			name:    "a killed voter answers at once, and has forgotten renewals",
			scripts: [4][]script{{{renewal: true}}, {{read: true}}}, existing: true, attempts: 1, restarts: 1, killed: true,
			mutant: func(m *Machine) {
				for _, s := range m.slots {
					s.Accepted, s.State.Stamp = Ballot{1, 1, 0}, s.State.Firm
				}
			},
		},
		{
			name:    "a restarted voter forgets its promises",
			scripts: [4][]script{{{}}, {{}}}, attempts: 1, restarts: 1,
			mutant: func(m *Machine) { m.floor = 0 },
		},
		{
			name:    "a restarted voter uses its rounds again",
			scripts: [4][]script{{{}, {}}, {{}}}, attempts: 1, restarts: 1, only: "A",
			mutant: func(m *Machine) { m.seen, m.floor = 0, 0 },
		},
		{
			name:    "a restarted voter forgets what it accepted",
			scripts: [4][]script{{{}}, {{read: true}}}, attempts: 1, restarts: 1,
			mutant: func(m *Machine) { clear(m.slots) },
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			e, w := newExplorer(s)
			if err := e.run(w, s.limit()); err == nil || errors.Is(err, errBounded) {
				t.Errorf("%d states, and nothing found", e.states)
			} else {
				t.Logf("%d states: %v", e.states, err)
			}
		})
	}
}
