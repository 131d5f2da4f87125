package algorithms_test

import (
	"errors"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

const second = protocol.Second

// world is a lock that lets everybody in at once: whether it breaks a promise is
// up to those who ask. say is what the next machine that is poked answers.
type world struct {
	*sim.Sim
	fence   uint64
	stay    bool // the fence
	mute    bool // answers no request
	machine gate // what its machines do beside
	say     func(out *protocol.Output)
	valid   map[string]protocol.Time // until when the holds of some are, if not as machine says
	refs    []uint64                 // of what was asked by ask
}

type gate struct {
	*world
	id         string
	validUntil protocol.Time
	wakeAt     func(now protocol.Time) protocol.Time
	bad        func(in *protocol.Input) error
	status     func()
	invariant  func() error
}

func (g gate) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	if g.wakeAt != nil {
		out.WakeAt = g.wakeAt(now)
	}
	if g.bad != nil {
		if err := g.bad(in); err != nil {
			return err
		}
	}
	switch in.Kind {
	case protocol.Acquire:
		if !g.mute {
			if !g.stay {
				g.fence++
			}
			out.Grants = append(out.Grants, g.grant(in.Ref))
		}
	case protocol.Change:
		if say := g.say; say != nil {
			g.world.say = nil
			say(out)
		}
	}
	return nil
}

func (g *world) grant(ref uint64) protocol.Granted {
	return protocol.Granted{Ref: ref, Resource: resource, Fence: g.fence}
}

func (g gate) Status() protocol.Status {
	if g.status != nil {
		g.status()
	}
	until, ok := g.valid[g.id]
	if !ok {
		until = g.validUntil
	}
	return protocol.Status{Role: protocol.Member, ValidUntil: until}
}

func (g gate) CheckInvariants() error {
	if g.invariant != nil {
		return g.invariant()
	}
	return nil
}

// ask makes id ask at second at, for as many seconds.
func (g *world) ask(at protocol.Time, id string, hold protocol.Duration) {
	g.At(at*second, func() {
		g.refs = append(g.refs, g.Request(id, sim.Request{Resource: resource, Hold: hold * second}))
	})
}

// do does something at second at.
func (g *world) do(at protocol.Time, f func(string), id string) { g.At(at*second, func() { f(id) }) }

// poke makes id answer ref as say has it.
func (g *world) poke(at protocol.Time, id string, say func(out *protocol.Output)) {
	g.At(at*second, func() {
		g.say = say
		g.SetModels(id, protocol.Models{})
	})
}

// earliest is the first request that was asked; nothing is one that never was.
const (
	earliest = 0
	nothing  = -1
)

func (g *world) ref(which int) uint64 {
	if which == nothing {
		return 99
	}
	return g.refs[which]
}

func (g *world) grants(which ...int) func(out *protocol.Output) {
	return func(out *protocol.Output) {
		for _, w := range which {
			g.fence++
			out.Grants = append(out.Grants, g.grant(g.ref(w)))
		}
	}
}

func (g *world) denies(which ...int) func(out *protocol.Output) {
	return func(out *protocol.Output) {
		for _, w := range which {
			out.Denials = append(out.Denials, protocol.Denial{Ref: g.ref(w), Resource: resource, Reason: protocol.ReasonBusy})
		}
	}
}

func (g *world) loses(which ...int) func(out *protocol.Output) {
	return func(out *protocol.Output) {
		for _, w := range which {
			out.Losses = append(out.Losses, protocol.Loss{Ref: g.ref(w), Resource: resource})
		}
	}
}

func sends(m protocol.Message) func(out *protocol.Output) {
	return func(out *protocol.Output) { out.Messages = append(out.Messages, m) }
}

// broken are scripts and what is found: "" is a run that breaks no promise.
var broken = map[string]struct {
	want    string
	machine gate
	script  func(g *world)
}{
	"two inside":          {want: "2 are inside", script: func(g *world) { g.ask(1, "A", 10); g.ask(5, "B", 1) }},
	"one after the other": {script: func(g *world) { g.ask(1, "A", 3); g.ask(5, "B", 1) }},
	"inside two resources": {script: func(g *world) {
		g.ask(1, "A", 9)
		g.At(5*second, func() { g.Request("B", sim.Request{Resource: "lift"}) })
	}, want: "asked for lift and enters crane"},
	"whoever crashed is not inside": {script: func(g *world) {
		g.ask(1, "A", 10)
		g.do(3, g.Crash, "A")
		g.do(4, g.Restart, "A")
		g.ask(5, "B", 1)
	}},
	"a new incarnation is inside, too": {want: "2 are inside", script: func(g *world) {
		g.ask(1, "A", 10)
		g.do(3, g.Crash, "A")
		g.do(4, g.Restart, "A")
		g.ask(5, "B", 9)
		g.ask(6, "A", 1)
	}},
	"a paused one is inside": {want: "2 are inside", script: func(g *world) {
		g.ask(1, "A", 2)
		g.do(2, g.Pause, "A")
		g.ask(5, "B", 1)
	}},
	"a paused one whose session is over is not": {machine: gate{validUntil: 4 * second}, script: func(g *world) {
		g.ask(1, "A", 2)
		g.do(2, g.Pause, "A")
		g.ask(5, "B", 1)
	}},
	"a slow clock has not seen the end": {machine: gate{validUntil: 2 * second}, want: "2 are inside", script: func(g *world) {
		g.ask(1, "C", 20) // whose clock is 10 s behind
		g.ask(5, "D", 1)  // likewise
	}},
	"a hold revives": {want: "2 are inside", script: func(g *world) {
		g.valid["A"] = 3 * second
		g.ask(1, "A", 20)
		g.ask(5, "B", 20)
		g.At(8*second, func() { g.valid["A"] = protocol.Never })
		g.poke(8, "C", g.grants())
	}},
	"a hold that has lapsed excludes nobody": {script: func(g *world) {
		g.valid["A"] = 3 * second
		g.ask(1, "A", 20)
		g.ask(5, "B", 20)
		g.poke(8, "C", g.grants())
	}},
	"a partition hides nobody": {want: "2 are inside", script: func(g *world) {
		g.ask(1, "A", 10)
		g.At(2*second, func() { g.Partition([]string{"A"}) })
		g.do(3, g.Cut, "A")
		g.ask(5, "B", 1)
	}},
	"a fence twice": {want: "fence 1, which is not above 1", script: func(g *world) {
		g.ask(1, "A", 1)
		g.At(3*second, func() { g.stay = true })
		g.ask(5, "B", 1)
	}},
	"a fence falls": {want: "fence 4, which is not above 5", script: func(g *world) {
		g.fence = 4
		g.ask(1, "A", 1)
		g.At(3*second, func() { g.fence = 3 })
		g.ask(5, "B", 1)
	}},
	"a fence of nothing": {want: "fence 0, which is not above 0", script: func(g *world) {
		g.stay = true
		g.ask(1, "A", 1)
	}},
	"a fence is forgotten in a crash": {want: "fence 1, which is not above 1", script: func(g *world) {
		g.ask(1, "A", 10)
		g.do(3, g.Crash, "A")
		g.do(3, g.Restart, "A")
		g.At(4*second, func() { g.fence = 0 })
		g.ask(5, "A", 1)
	}},
	"a grant twice at once": {want: "not waiting", script: func(g *world) {
		g.mute = true
		g.ask(1, "A", 5)
		g.poke(2, "A", g.grants(earliest, earliest))
	}},
	"a grant again":         {want: "not waiting", script: func(g *world) { g.ask(1, "A", 5); g.poke(2, "A", g.grants(earliest)) }},
	"a grant after leaving": {want: "not waiting", script: func(g *world) { g.ask(1, "A", 1); g.poke(3, "A", g.grants(earliest)) }},
	"a grant of nothing":    {want: "not waiting", script: func(g *world) { g.poke(3, "A", g.grants(nothing)) }},
	"a grant of another's": {want: "not waiting", script: func(g *world) {
		g.mute = true
		g.ask(1, "A", 5)
		g.poke(2, "B", g.grants(earliest))
	}},
	"a grant after withdrawing": {want: "not waiting", script: func(g *world) {
		g.mute = true
		g.ask(1, "A", 5)
		g.At(2*second, func() { g.Withdraw(g.ref(earliest)) })
		g.poke(3, "A", g.grants(earliest))
	}},
	"a grant to the one before the crash": {want: "not waiting", script: func(g *world) {
		g.mute = true
		g.ask(1, "A", 5)
		g.do(2, g.Crash, "A")
		g.do(3, g.Restart, "A")
		g.poke(4, "A", g.grants(earliest))
	}},
	"the place of an old request is another's": {want: "not waiting", script: func(g *world) {
		g.ask(1, "A", 1)
		g.At(3*second, func() { g.mute = true })
		g.ask(4, "B", 1)
		g.poke(5, "B", g.grants(earliest))
	}},
	"a denial of nothing":   {want: "refuses a request that is not waiting", script: func(g *world) { g.poke(3, "A", g.denies(nothing)) }},
	"a denial inside":       {want: "refuses a request that is not waiting", script: func(g *world) { g.ask(1, "A", 5); g.poke(3, "A", g.denies(earliest)) }},
	"a denial twice":        {want: "refuses a request that is not waiting", script: func(g *world) { g.mute = true; g.ask(1, "A", 5); g.poke(3, "A", g.denies(earliest, earliest)) }},
	"a loss of nothing":     {want: "loses a hold that it does not have", script: func(g *world) { g.poke(3, "A", g.loses(nothing)) }},
	"a loss twice":          {want: "loses a hold that it does not have", script: func(g *world) { g.ask(1, "A", 5); g.poke(3, "A", g.loses(earliest, earliest)) }},
	"a loss before a grant": {want: "loses a hold that it does not have", script: func(g *world) { g.mute = true; g.ask(1, "A", 5); g.poke(3, "A", g.loses(earliest)) }},
	"a loss of another's":   {want: "loses a hold that it does not have", script: func(g *world) { g.ask(1, "A", 5); g.poke(3, "B", g.loses(earliest)) }},
	"a loss frees": {script: func(g *world) {
		g.ask(1, "A", 9)
		g.poke(3, "A", g.loses(earliest))
		g.ask(5, "B", 1)
	}},
	"a stranger": {want: "who does not take part", script: func(g *world) {
		g.poke(3, "A", sends(protocol.Message{Kind: protocol.KindAck, To: protocol.Node{ID: "Z"}}))
	}},
	"a refused request": {want: "refused an input of kind 2", machine: gate{bad: refuse(protocol.Acquire)}, script: func(g *world) { g.ask(1, "A", 1) }},
	"a refused leave":   {want: "refused an input of kind 4", machine: gate{bad: refuse(protocol.Leave)}, script: func(g *world) { g.ask(1, "A", 1) }},
	"wakes in the past": {want: "asks again and again", machine: gate{wakeAt: func(now protocol.Time) protocol.Time { return now - second }}},
	"wakes now":         {want: "asks again and again", machine: gate{wakeAt: func(now protocol.Time) protocol.Time { return now }}},
	"panics":            {want: "panic: out of order", machine: gate{bad: panics}},
	"panics in Status":  {want: "panic: out of order", machine: gate{status: func() { panic("out of order") }}, script: func(g *world) { g.ask(1, "A", 10); g.ask(2, "B", 10) }},
}

var errRefused = errors.New("refused")

func refuse(kind protocol.InputKind) func(*protocol.Input) error {
	return func(in *protocol.Input) error {
		if in.Kind == kind {
			return errRefused
		}
		return nil
	}
}

func panics(*protocol.Input) error { panic("out of order") }

// newWorld makes a run of gates. C and D have clocks that are 10 s behind.
func newWorld(t *testing.T, machine gate, change func(*sim.Scenario)) *world {
	t.Helper()
	g := &world{machine: machine, valid: map[string]protocol.Time{}}
	if g.machine.validUntil == 0 {
		g.machine.validUntil = protocol.Never
	}
	sc := sim.Scenario{Participants: sim.Tree(4, 2, true), Timing: protocol.LAN(), Duration: 60 * second}
	sc.Participants[0].Root = false // who could not restart
	sc.Participants[2].ClockOffset, sc.Participants[3].ClockOffset = -10*second, -10*second
	change(&sc)
	s, err := sim.New(protocol.Algorithm{Name: "gate", New: func(c protocol.Config) (protocol.Machine, error) {
		m := g.machine
		m.world, m.id = g, c.Self.ID
		return m, nil
	}}, sc)
	if err != nil {
		t.Fatal(err)
	}
	g.Sim = s
	return g
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for name, c := range broken {
		for _, fast := range []bool{false, true} {
			g := newWorld(t, c.machine, func(sc *sim.Scenario) { sc.Fast = fast })
			if c.script != nil {
				c.script(g)
			}
			_, err := g.Run()
			if (c.want == "") != (err == nil) || err != nil && (!errors.Is(err, sim.ErrViolation) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, fast=%v: want %q, got %.400v", name, fast, c.want, err)
			}
			if v, ok := errors.AsType[*sim.Violation](err); ok && c.script != nil && (len(v.History) == 0) != fast {
				t.Errorf("%s, fast=%v: %d lines of history", name, fast, len(v.History))
			}
		}
	}
}

// Invariants and what cannot be written on a wire are looked at unless the run is
// Fast.
func TestOnlySlowRunsLookCloser(t *testing.T) {
	for name, c := range map[string]struct {
		want    string
		machine gate
		script  func(g *world)
	}{
		"invariant":         {": refused", gate{invariant: func() error { return errRefused }}, func(*world) {}},
		"panic":             {"panic: out of order", gate{invariant: func() error { panic("out of order") }}, func(*world) {}},
		"no kind":           {"message of unknown kind", gate{}, func(g *world) { g.poke(3, "A", sends(protocol.Message{Kind: 200, To: protocol.Node{ID: "B"}})) }},
		"nobody sends this": {"message of unknown kind", gate{}, func(g *world) { g.poke(3, "A", sends(protocol.Message{To: protocol.Node{ID: "B"}})) }},
	} {
		for _, fast := range []bool{false, true} {
			g := newWorld(t, c.machine, func(sc *sim.Scenario) { sc.Fast = fast })
			c.script(g)
			if _, err := g.Run(); errors.Is(err, sim.ErrViolation) == fast || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, fast=%v: got %.400v", name, fast, err)
			}
		}
	}
}

// A from 1 to 11 s; B, C, and A again while others are inside, C with a fence that
// has been, A with one that is lower; D when all have left, but for A, who has
// crashed inside; B while D is paused inside, and while A's session is over.
func TestOverlapsAreCountedOneByOne(t *testing.T) {
	for _, fast := range []bool{false, true} {
		g := newWorld(t, gate{}, func(sc *sim.Scenario) { sc.Fast, sc.AllowOverlap = fast, true })
		g.ask(1, "A", 10)
		g.ask(2, "B", 2) // overlap
		g.At(3*second-1, func() { g.fence-- })
		g.ask(3, "C", 1) // overlap, stale
		g.At(7*second-1, func() { g.fence -= 2 })
		g.ask(7, "A", 30) // overlap, stale
		g.do(20, g.Crash, "A")
		g.At(21*second-1, func() { g.fence = 100 })
		g.ask(21, "D", 2)
		g.do(22, g.Pause, "D")
		g.ask(30, "B", 1) // overlap
		g.do(31, g.Resume, "D")
		g.At(40*second, func() { g.valid["A"] = 45 * second })
		g.do(40, g.Restart, "A")
		g.ask(41, "A", 10)
		g.ask(50, "B", 1) // A's session is over
		r, err := g.Run()
		if err != nil || r.Overlaps != 4 || r.StaleFences != 2 || r.Entries != 8 || r.Report().Overlaps != 4 {
			t.Errorf("fast=%v: %d overlaps, %d stale fences in %d entries, %v", fast, r.Overlaps, r.StaleFences, r.Entries, err)
		}
	}
}
