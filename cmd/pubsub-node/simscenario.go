package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/static"
)

// simResource is what the simulated applications ask for if nothing is said.
const simResource = sim.PaperResource

// simSpec is a scenario as the command line and a file describe it.
type simSpec struct {
	algorithm, models string
	resources         nameList // that the topic declares
	nodes, fanout     int
	tree              treeKind
	ttl               duration
	priorities        intList
	latency           spans
	load              loadSpec
	duration          duration
	seed              uint64
	fifo              bool
	loss, duplicate   share
	drift             share
	trace             string

	// From a file only.
	file         string
	matrix       [][]protocol.Duration
	participants []participantSpec
	faults       []faultSpec

	options *pflag.FlagSet // what flags and files can set; the values are above
	given   map[string]bool
}

// loadSpec is what one application does.
type loadSpec struct {
	cs, think, every  spans
	asksFor           drawList // one is drawn for each request; none: all resources
	deadlines         spanList
	requestPriorities intList
	giveUp            bool
}

func newSimSpec() *simSpec {
	s := &simSpec{given: map[string]bool{}, tree: adaptiveTree, latency: spansOf(time.Second), duration: duration(360 * protocol.Second)}
	s.load.cs, s.load.think = spansOf(time.Second), spansOf(time.Second)
	s.loss.most, s.duplicate.most, s.drift.most = 1, 1, 0.2
	fs := pflag.NewFlagSet("scenario", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringVar(&s.algorithm, "algorithm", padmeName, "`name` of the algorithm, or list")
	fs.StringVar(&s.models, "models", "fair-forward-use-use", "`models` of PADME: Priority-Request-Reply-Release")
	fs.Var(&s.resources, "resources", "`names` of the resources (default crane, or those of the trace)")
	fs.IntVar(&s.nodes, "nodes", 7, "`number` of participants")
	fs.IntVar(&s.fanout, "fanout", 2, "`number` of children of each node of the tree")
	fs.Var(&s.tree, "tree", "of PADME: adaptive, with a root that is elected, or static, as in the papers")
	fs.Var(&s.ttl, "ttl", "`time` that PADME's sessions outlive their participants (default: 60 latencies, 3s at least)")
	fs.Var(&s.priorities, "priorities", "`numbers`: one for all participants or one for each, smaller is more important (default: the depth in the tree)")
	fs.Var(&s.latency, "latency", "`time` that a message takes")
	s.load.flags(fs)
	fs.Var(&s.duration, "duration", "simulated `time` that is measured")
	fs.Uint64Var(&s.seed, "seed", 1, "`number` that all chances are drawn from")
	fs.BoolVar(&s.fifo, "fifo", true, "keep the order of messages between two participants")
	fs.Var(&s.loss, "loss", "`probability` that a message is lost")
	fs.Var(&s.duplicate, "duplicate", "`probability` that a message comes twice")
	fs.Var(&s.drift, "drift", "clocks are fast or slow by up to this `share`: 0.01 is one per cent")
	fs.StringVar(&s.trace, "trace", "", "`file` of requests: lines of at,node,resource,hold[,priority[,within]]; a resource * is any free one")
	s.options = fs
	return s
}

// flags registers what one application does.
func (l *loadSpec) flags(fs *pflag.FlagSet) {
	fs.Var(&l.cs, "cs", "`time` inside the critical section")
	fs.Var(&l.think, "think", "`time` from leaving to the next request")
	fs.Var(&l.every, "every", "`time` from one request to the next, whether those before are over or not; instead of --think")
	fs.Var(&l.asksFor, "asks-for", "`names` of resources: one is drawn for each request, * is any free one; twice is twice as likely (default: all of them)")
	fs.Var(&l.deadlines, "deadlines", "`times` within which a request must be inside; one is drawn for each")
	fs.Var(&l.requestPriorities, "request-priorities", "`numbers`: one is drawn for each request, instead of the participant's")
	fs.BoolVar(&l.giveUp, "give-up", false, "withdraw a request when its deadline passes")
}

// open reports whether requests come by the clock.
func (s *simSpec) open() bool { return s.given["every"] && !s.given["think"] }

// loaded reports whether participants ask by themselves, beside a trace.
func (s *simSpec) loaded() bool { return s.trace == "" || s.given["think"] || s.given["every"] }

// check says what is wrong with the values together.
func (s *simSpec) check(c *contender) error {
	const padmeDepth = protocol.MaxPath - 1
	switch {
	case s.nodes < 1:
		return fmt.Errorf("nodes %d: there must be at least 1", s.nodes)
	case s.fanout < 1:
		return fmt.Errorf("fanout %d: a node of the tree needs at least 1 child", s.fanout)
	case s.duration <= 0:
		return errors.New("duration 0s: nothing would be measured")
	case s.given["every"] && s.given["think"]:
		return errors.New("every and think contradict each other: requests come by the clock or after those before, so give one of them")
	case len(s.priorities) > 1 && len(s.priorities) != s.nodes:
		return fmt.Errorf("priorities has %d values for %d nodes: give one for all or one for each", len(s.priorities), s.nodes)
	case s.load.giveUp && len(s.load.deadlines) == 0:
		return errors.New("give-up needs deadlines: give their times")
	case s.latencyBound() > mostLatency:
		return fmt.Errorf("latency: messages may take more than %v", time.Duration(mostLatency))
	case s.loaded() && !s.open() && s.load.cs.bound+s.load.think.bound == 0:
		return errors.New("cs and think are both 0: simulated time would not pass, so give one of them")
	case s.open() && s.load.every.bound == 0:
		return errors.New("every is 0: simulated time would not pass")
	}
	if most, why := mostNodes(c); s.nodes > most {
		return fmt.Errorf("nodes %d: the most is %d, %s", s.nodes, most, why)
	}
	if err := s.checkTree(c); err != nil {
		return err
	}
	if d := treeDepth(s.nodes, s.fanout); c.hasModels() && len(s.participants) == 0 && d > padmeDepth {
		return fmt.Errorf("a tree of %d nodes with a fan-out of %d is %d deep, PADME's may be %d: raise fanout", s.nodes, s.fanout, d, padmeDepth)
	}
	return nil
}

// mostNodes bounds the participants. Where everybody writes to everybody each pair
// takes about a kilobyte while the messages are on their way.
func mostNodes(c *contender) (most int, why string) {
	if c.hasModels() {
		return protocol.MaxSessions, "the sessions that PADME's root keeps"
	}
	return 2000, fmt.Sprintf("since everybody may write to everybody in %s, and that fills the memory", c.algorithm.Name)
}

// treeDepth is how many links the deepest of n nodes is from the root.
func treeDepth(n, fanout int) int {
	depth := 0
	for i := n - 1; i > 0; i = (i - 1) / fanout {
		depth++
	}
	return depth
}

// build makes what the simulator runs for c. The scenario is on a perfect network
// until it is measured; see plan.
func (s *simSpec) build(c *contender) (sim.Scenario, error) {
	sc, err := s.assemble(c)
	if errors.As(err, new(*lineError)) {
		err = fmt.Errorf("%s: %w", s.file, err)
	}
	return sc, err
}

func (s *simSpec) assemble(c *contender) (sim.Scenario, error) {
	if err := s.check(c); err != nil {
		return sim.Scenario{}, err
	}
	sc := sim.Scenario{
		Seed: s.seed, Fast: true, AllowOverlap: c.overlaps(),
		Settings: protocol.Settings{Models: c.models},
		Duration: protocol.Duration(s.duration),
	}
	sc.Network.Latency = s.latency.Distribution
	if s.matrix != nil {
		sc.Network.Latency = sim.Matrix{Each: s.matrix}
	}
	var err error
	if sc.Participants, err = s.people(c); err != nil {
		return sc, err
	}
	if sc.Arrivals, err = s.arrivals(); err != nil {
		return sc, err
	}
	sc.Settings.Resources = s.declared(sc.Arrivals)
	if err := s.checkAsked(&sc, c); err != nil {
		return sc, err
	}
	sc.Timing, sc.Start = settle(sc.Participants, s.latencyBound(), max(s.drift.value, 0.01))
	sc.Fanout = mostChildren(sc.Participants)
	if s.adapts(c) {
		s.elect(&sc)
	} else if s.given["ttl"] {
		sc.Timing = sc.Timing.WithTTL(s.sessions())
	}
	if s.loaded() {
		sc.Workload = s.load.workload(c, s.open(), s.asked())
	}
	for i := range s.faults {
		if err := s.faults[i].check(&sc, c); err != nil {
			return sc, err
		}
	}
	if len(s.faults) > 0 && c.hasModels() && !s.adapts(c) {
		keepRecord(&sc)
	}
	return sc, nil
}

// keepRecord gives the topic a record in a register, so that its root can come back.
func keepRecord(sc *sim.Scenario) {
	sc.NewCandidate = func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
		return candidate.New(candidate.Config{Protocol: p, Lease: l})
	}
	for i := range sc.Participants {
		if p := &sc.Participants[i]; p.Root {
			p.Root, p.Candidate, p.Creates = false, true, true
		}
	}
}

// settle scales the time constants with the latency, so that sessions outlast it
// and heartbeats do not disturb what is measured (sim.PaperScenario). Below 50 ms
// they stay those of a local network. Participants start in the order of their
// depth, each when its parent has a place; settled is when all of them have one.
func settle(all []sim.Participant, latency protocol.Duration, drift float64) (t protocol.Timing, settled protocol.Time) {
	unit := max(latency, leastUnit)
	t = protocol.Timing{
		TTL: 60 * unit, Heartbeat: 12 * unit, Drift: drift, JoinWait: 3 * unit, MoveAfter: 60 * unit,
		Hop: latency,
	}
	parent := make(map[string]*sim.Participant, len(all))
	for i := range all {
		parent[all[i].ID] = &all[i]
	}
	deepest := protocol.Time(0)
	for i := range all {
		depth := protocol.Time(0)
		for p := parent[all[i].Parent]; p != nil && depth <= protocol.MaxPath; p = parent[p.Parent] {
			depth++
		}
		all[i].Joins = depth * joinTakes * unit
		deepest = max(deepest, depth)
	}
	return t, max(100, 2*deepest*joinTakes) * unit
}

// leastUnit is the latency up to which the time constants stay those of a local network.
const leastUnit = 50 * protocol.Millisecond

// joinTakes is how many latencies a participant needs to find a place under a
// parent that has one.
const joinTakes = 8

// mostLatency keeps multiples of the latency within what the simulator counts.
const mostLatency = 24 * 3600 * protocol.Second

// latencyBound is what few messages exceed.
func (s *simSpec) latencyBound() protocol.Duration {
	if s.matrix == nil {
		return s.latency.bound
	}
	var most protocol.Duration
	for _, row := range s.matrix {
		for _, d := range row {
			most = max(most, d)
		}
	}
	return most
}

// people makes the participants: a complete tree in the order of their numbers,
// changed or replaced by the file's.
func (s *simSpec) people(c *contender) ([]sim.Participant, error) {
	all := sim.Tree(s.nodes, s.fanout, false)
	if len(s.participants) > 0 && !s.given["nodes"] {
		s.rename(all)
	}
	for i := range all {
		switch len(s.priorities) {
		case 0:
		case 1:
			all[i].Priority = s.priorities[0]
		default:
			all[i].Priority = s.priorities[i]
		}
	}
	if err := s.change(all, c); err != nil {
		return nil, err
	}
	if s.drift.value > 0 {
		const million = 1e6
		chance := rand.New(rand.NewPCG(s.seed, 0x6472696674))
		for i := range all {
			all[i].ClockDrift = int64((2*chance.Float64() - 1) * s.drift.value * million)
		}
	}
	return all, nil
}

// mostChildren is what the tree needs; a machine takes no more children than it is
// told to.
func mostChildren(all []sim.Participant) int {
	children, most := map[string]int{}, 8
	for i := range all {
		if p := all[i].Parent; p != "" {
			children[p]++
			most = max(most, children[p])
		}
	}
	return most
}

// workload is l for the simulator, of one who asks for what is asked if l names nothing.
// PADME ends requests that are late by itself.
func (l *loadSpec) workload(c *contender, open bool, asked []string) sim.Workload {
	if len(l.asksFor) > 0 {
		asked = l.asksFor
	}
	w := sim.Workload{
		Resources: asked, Hold: l.cs.Distribution, Think: l.think.Distribution,
		Priorities: l.requestPriorities, Deadlines: l.deadlines, GiveUp: l.giveUp && !c.hasModels(),
	}
	if open {
		w.Think, w.Every = sim.Distribution{}, l.every.Distribution
	}
	return w
}

// arrivals reads the trace.
func (s *simSpec) arrivals() ([]sim.Arrival, error) {
	if s.trace == "" {
		return nil, nil
	}
	f, err := os.Open(s.trace)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := sim.ReadTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(s.trace), err)
	}
	return all, nil
}

// lossy says why messages may be lost, doubled or reordered; "" if none is.
func (s *simSpec) lossy() string {
	switch {
	case s.loss.value > 0:
		return "loses messages"
	case s.duplicate.value > 0:
		return "doubles messages"
	case !s.fifo:
		return "reorders messages"
	}
	for i := range s.faults {
		if s.faults[i].loses() {
			return "loses messages in faults"
		}
	}
	return ""
}

// channels gives a static algorithm the channels that it assumes, if the network
// does not have them.
func (s *simSpec) channels(c *contender) (algorithm protocol.Algorithm, added bool) {
	if c.algorithm.Static && s.lossy() != "" {
		return static.OverLossyChannels(c.algorithm), true
	}
	return c.algorithm, false
}

// plan lets the network be bad, and faults happen, from when it is measured.
func (s *simSpec) plan(run *sim.Sim, sc *sim.Scenario) {
	bad := sc.Network
	bad.Loss, bad.Duplicate, bad.Reorder = s.loss.value, s.duplicate.value, !s.fifo
	if bad.Loss > 0 || bad.Duplicate > 0 || bad.Reorder {
		run.At(sc.Start, func() { run.SetNetwork(bad) })
	}
	for i := range s.faults {
		f := &s.faults[i]
		run.At(sc.Start+protocol.Time(f.at), func() { f.happen(run) })
	}
}
