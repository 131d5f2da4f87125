package lease_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// model is a small world for the model checker: candidates with clocks that are as slow
// or as fast as allowed, one register that does one thing at a time, and requests,
// answers and beacons that are under way for as long as anybody likes. True time passes
// in ticks; within one, everything may happen in any order.
type model struct {
	cfg    *modelConfig
	nodes  [3]modelNode
	reg    registry
	shut   int8         // ticks until it answers again
	ghosts []modelWrite // writes given up by who sent them, which may still take effect
	budget [modelKinds]int8
	watch  modelOracle
	log    *strings.Builder // set while a trace is replayed
}

type modelNode struct {
	m       *lease.Machine // nil: it does not run
	self    protocol.Node
	clock   protocol.Time
	wake    protocol.Time
	paused  bool
	cut     bool // from the broker
	gone    bool // has departed
	act     bool
	until   protocol.Time
	term    uint64
	heldIn  uint64        // the term in which its process of before was the root last
	version lease.Version // that its beacons name
	op      modelOp
}

// modelOp is a request that is not answered.
type modelOp struct {
	kind   lease.RequestKind
	write  lease.Write
	age    int8 // ticks
	served bool
	said   lease.Outcome
	entry  lease.Entry
}

type modelWrite struct{ lease.Write }

// modelOracle remembers what invariants are about.
type modelOracle struct {
	term    uint64 // of the newest appointment
	reach   uint64 // fences below may have been handed out
	renewed int8   // ticks since the newest write that its root knew to be made was first sent
	failure error
}

type modelConfig struct {
	rates  []protocol.Duration // by candidate: what its clock shows more after a tick
	places bool                // each has a place, which the next run has too
	local  bool                // the register is one process with the first candidate: they die together
	slow   int8                // ticks for which a request may be under way before it is given up
	prompt bool                // beacons arrive at once; else at any time, or never
	budget map[modelKind]int8
}

type modelKind uint8

// What may happen. Those below modelFaults need a budget.
const (
	modelTick    modelKind = iota
	modelServe             // the register does what i asks
	modelDeliver           // i gets the answer
	modelHear              // i hears the newest beacon of j
	modelResume
	modelHeal
	modelLand   // a ghost takes effect
	modelFaults // the others
	modelTimeout
	modelLinger // a request is given up, and takes effect later
	modelCrash
	modelRestart
	modelPause
	modelCut
	modelSuccessor // i, the root, names j
	modelResign
	modelRaise
	modelForget
	modelKinds
)

var modelNames = [modelKinds]string{
	"tick", "serve", "deliver", "hear", "resume", "heal", "land", "", "timeout", "linger",
	"crash", "restart", "pause", "cut", "successor", "resign", "raise", "forget",
}

type modelAction struct {
	kind modelKind
	i, j uint8
}

func (a modelAction) String() string {
	return fmt.Sprintf("%s %c %c", modelNames[a.kind], 'A'+a.i, 'A'+a.j)
}

const (
	modelRho   = 0.2
	modelLease = 16 * ms
	modelSlow  = 4 * ms // of a tick of 5 ms
	modelEven  = 5 * ms
	modelFast  = 6 * ms
	modelShut  = 4 // ticks: the lease / (1-rho)
	modelOld   = 8 // ticks, and no longer compared
	// unlimited is a budget that is not used up.
	unlimited = 127
)

func newModel(cfg *modelConfig) *model {
	w := &model{cfg: cfg}
	for k, n := range cfg.budget {
		w.budget[k] = n
	}
	w.reg.entry.Version.Domain = [16]byte{1}
	w.reg.synced = w.reg.entry
	w.watch.renewed = modelOld
	if cfg.local {
		w.reg.host = "A"
	}
	for i := range cfg.rates {
		w.start(i)
	}
	return w
}

func (w *model) start(i int) {
	n := &w.nodes[i]
	self := protocol.Node{ID: string(rune('A' + i)), Incarnation: n.self.Incarnation + 1}
	cfg := lease.Config{
		Self: self, Rank: i, Drift: modelRho, Create: true, Lease: modelLease, TTL: 2 * modelLease, Wall: wall,
		Seed: uint64(i)<<32 + self.Incarnation<<16,
	}
	if w.cfg.places {
		cfg.Place = self.ID
		if term := cmp.Or(n.term, n.heldIn); term != 0 {
			n.heldIn, cfg.HeldIn = term, []uint64{term}
			cfg.Held = []protocol.Held{{Ref: 1, Resource: "x", Fence: 1}}
		}
	}
	m, err := lease.New(cfg)
	if err != nil {
		panic(err)
	}
	*n = modelNode{m: m, self: self, clock: 1000 * ms, heldIn: n.heldIn}
	w.hear(i, &protocol.Output{Echo: n.clock})
}

// clone returns a copy that shares nothing that changes.
func (w *model) clone() *model {
	c := *w
	c.ghosts = slices.Clone(w.ghosts)
	return &c
}

func (w *model) hear(i int, said *protocol.Output) { w.step(i, &lease.Input{Said: said}) }

// step feeds the machine of i; machines are shared between worlds until then.
func (w *model) step(i int, in *lease.Input) {
	n := &w.nodes[i]
	n.m = n.m.Clone()
	var out lease.Output
	if n.act && n.clock >= n.until {
		n.act = false
	}
	err := n.m.Step(n.clock, in, &out)
	n.wake = out.WakeAt
	if w.log != nil {
		w.tell(i, in, &out, err)
	}
	if err != nil {
		w.fail("%v refuses an answer: %v", n.self, err)
	}
	if err := n.m.CheckInvariants(); err != nil {
		w.fail("%v: %v", n.self, err)
	}
	n.act = n.act && in.Successor.IsZero()
	for i := range out.Tell {
		n.act = n.act && out.Tell[i].Kind != protocol.Dismissed
	}
	if r := &out.Request; r.Kind != lease.NoRequest {
		if n.op.kind != lease.NoRequest {
			w.fail("%v has two requests", n.self)
		}
		n.op = modelOp{kind: r.Kind, write: r.Write}
	}
	is := n.m.Status()
	for k := range out.Tell {
		switch l := out.Tell[k].Lease; out.Tell[k].Kind {
		case protocol.Appointed:
			n.act, n.until, n.term, n.version = true, l.Until, l.Term, is.Entry.Version
			w.appointed(i, l)
			w.renewed(i, l.Renewed)
		case protocol.Extended:
			if !n.act {
				w.fail("%v is extended, and does not act", n.self)
			}
			n.until, n.version = l.Until, is.Entry.Version
			w.watch.reach = max(w.watch.reach, l.Fences.End)
			w.renewed(i, l.Renewed)
		}
	}
	n.gone = is.Departed
}

// age is how many ticks ago it was t on the clock of i.
func (w *model) age(i int, t protocol.Time) int8 {
	return int8(min(modelOld, (w.nodes[i].clock-t)/w.cfg.rates[i]))
}

func (w *model) renewed(i int, t protocol.Time) {
	w.watch.renewed = min(w.watch.renewed, w.age(i, t))
}

func (w *model) appointed(i int, a *protocol.Lease) {
	n := &w.nodes[i]
	switch {
	case a.Term <= w.watch.term:
		w.fail("%v is appointed in term %d after term %d", n.self, a.Term, w.watch.term)
	case a.Fences.Next < w.watch.reach || a.Fences.End <= a.Fences.Next:
		w.fail("%v has fences [%d,%d), and those below %d may be out", n.self, a.Fences.Next, a.Fences.End, w.watch.reach)
	case w.watch.term != 0 && w.age(i, a.Heard) > w.watch.renewed:
		w.fail("%v counts the grace from %d ticks ago, and the root before it renewed %d ticks ago", n.self, w.age(i, a.Heard), w.watch.renewed)
	case len(a.Held) > 0 && w.watch.term != n.heldIn:
		w.fail("%v goes on with what its process held in term %d, and term %d came after it", n.self, n.heldIn, w.watch.term)
	case a.Until <= n.clock:
		w.fail("%v is appointed when its lease is over", n.self)
	}
	w.watch.term, w.watch.reach = a.Term, a.Fences.End
}

func (w *model) fail(format string, args ...any) {
	if w.watch.failure == nil {
		w.watch.failure = fmt.Errorf(format, args...)
	}
}

// check is called after every action.
func (w *model) check() {
	var acting []string
	for i := range w.cfg.rates {
		n := &w.nodes[i]
		if !n.acts() {
			continue
		}
		acting = append(acting, n.self.ID)
		if r := &w.reg.entry.Record; r.Root != n.self || r.Term != n.term {
			w.fail("%v acts in term %d, and the register has term %d of %v", n.self, n.term, r.Term, r.Root)
		}
	}
	if len(acting) > 1 {
		w.fail("two act: %v", acting)
	}
}

func (n *modelNode) acts() bool { return n.m != nil && n.act && n.clock < n.until }

func (w *model) runs(i int) bool { n := &w.nodes[i]; return n.m != nil && !n.gone }
