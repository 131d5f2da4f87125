package simulation

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// options are what a seed decides before anything happens.
type options struct {
	seed       uint64
	size       int  // participants
	adaptive   bool // else a static tree
	fanout     int
	candidates int  // members that can be the root, besides the first
	creators   bool // each of them may create the topic
	places     bool // candidates come back at the place that the record names
	volatile   bool // the register is kept in the memory of the only candidate
	handovers  bool // priorities may outrank the root's, and the root may depart
	models     protocol.Models
	resources  []string
	any        bool // requests for Any beside those for one resource
	preset     preset
	latency    sim.Distribution
	hold       sim.Distribution
	think      sim.Distribution
	late       int  // members that join after the others
	full       bool // encoded messages, invariants of each machine

	// What other worlds than that of the faults draw.
	world      *world
	visitors   int               // at a time
	arrivals   protocol.Duration // from one visitor to the next, on average
	spread     bool              // each member asks for some of the resources
	mixed      bool              // members are configured differently
	open       bool              // resources that are not declared are asked for as well
	maxWaiting int               // of every member; 0: the machine's default
	trust      bool              // whoever is suspected has ended
	deadlines  bool              // requests have some
	rootKills  bool              // as kills, the root as well
	kills      bool              // members are killed one at a time
	deaths     bool              // visitors are killed, up to three a second
	registers  int               // the candidates were given so many by mistake; 0: one
	files      map[string]*notes // of participants that remember
	unheard    bool              // their roots may not hear of each other: overlaps are counted
	rest       protocol.Duration // how long it lasts after the tree has formed; 0: until leastTime
}

// preset is a timing with the network that it is made for.
type preset struct {
	name     string
	timing   protocol.Timing
	latency  protocol.Duration // least; the greatest is ten times as much
	hold     protocol.Duration // greatest stay; the least is a tenth
	greatest protocol.Duration // think time
}

func presets() []preset {
	const ms = protocol.Millisecond
	return []preset{
		{"LAN", protocol.LAN(), 2 * ms, 400 * ms, 4000 * ms},
		{"WAN", protocol.WAN(), 30 * ms, 2000 * ms, 12000 * ms},
		{"local", protocol.Local(), ms / 5, 100 * ms, 1000 * ms},
	}
}

// fullShare is one seed in how many that runs with messages encoded and every
// machine's own invariants checked after each of its steps. Exclusion and fences are
// checked in all of them.
const fullShare = 16

// draw decides everything. w is the world, nil for that of the seed.
func draw(seed uint64, w *world) options {
	if w == nil {
		w = drawWorld(seed)
	}
	o := drawFaults(seed)
	o.world, o.files = w, map[string]*notes{}
	if w.change != nil {
		w.change(&o, rand.New(rand.NewPCG(seed, 5)))
	}
	return o
}

func drawFaults(seed uint64) options {
	r := rand.New(rand.NewPCG(seed, 1))
	all := protocol.AllModels()
	o := options{
		seed: seed, size: 3 + r.IntN(7), adaptive: r.IntN(3) > 0, fanout: 2 + r.IntN(3),
		models: all[r.IntN(len(all))], resources: []string{"a", "b", "c"}[:1+r.IntN(3)], any: r.IntN(2) == 0,
		preset: presets()[r.IntN(3)], full: seed%fullShare == 0,
	}
	if r.IntN(6) == 0 {
		o.models.Priority = protocol.Aging
	}
	if o.adaptive {
		o.handovers = r.IntN(2) == 0
		o.candidates = r.IntN(o.size)
		o.late = r.IntN(2)
		o.creators = o.candidates > 0 && r.IntN(2) == 0
	}
	o.places = r.IntN(4) == 0
	p := &o.preset
	o.latency = sim.Uniform(p.latency, 10*p.latency)
	if r.IntN(4) == 0 {
		o.latency = sim.Constant(4 * p.latency)
	}
	o.hold = sim.Uniform(p.hold/10, p.hold)
	o.think = sim.Uniform(p.greatest/100, p.greatest/protocol.Duration(1+r.IntN(20)))
	switch r.IntN(4) {
	case 0:
		o.models.Release = protocol.Retain
	case 1:
		o.models.Release = protocol.Direct
	}
	return o
}

// String is one line for people.
func (o *options) String() string {
	words := []string{fmt.Sprintf("seed %d: %s: %d members", o.seed, o.world.name, o.size)}
	if o.visitors > 0 {
		words = append(words, fmt.Sprintf("up to %d visitors", o.visitors))
	}
	if o.late > 0 {
		words = append(words, fmt.Sprintf("%d of them late", o.late))
	}
	switch {
	case !o.adaptive:
		words = append(words, "static tree")
	case o.handovers:
		words = append(words, "adaptive tree with changes of root")
	default:
		words = append(words, "adaptive tree")
	}
	words = append(words, fmt.Sprintf("fan-out %d", o.fanout), fmt.Sprintf("%d candidates", 1+o.candidates), o.models.String(),
		strings.Join(o.demanded(), " "), o.preset.name)
	for word, on := range o.traits() {
		if on {
			words = append(words, word)
		}
	}
	if o.full {
		words = append(words, "full checks")
	}
	return strings.Join(words, ", ")
}

// traits are what a seed has or has not, in order.
func (o *options) traits() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		_ = yield("visitors", o.visitors > 0) &&
			yield("clients on different resources", o.spread) &&
			yield("members configured differently", o.mixed) &&
			yield("undeclared resources", o.open) &&
			yield("short queues", o.maxWaiting > 0) &&
			yield("trusted wills", o.trust) &&
			yield("deadlines", o.deadlines) &&
			yield("Any", o.any) &&
			yield("several candidates", o.candidates > 0) &&
			yield("several creators", o.creators) &&
			yield("candidates with a place", o.places) &&
			yield("participants that go on with what they held", o.remembers()) &&
			yield("registers in memory", o.volatile)
	}
}

// demanded are the resources that requests name.
func (o *options) demanded() []string {
	all := slices.Clip(o.resources)
	if o.open {
		all = append(all, "undeclared", "undeclared too")
	}
	if o.any {
		all = append(all, protocol.Any)
	}
	return all
}

// least and most bound priorities: some of the levels that Aging tells apart.
const (
	least = 1
	most  = 7
)

// priority draws that of a member. The first stays above everybody else unless there
// are to be hand-overs.
func (o *options) priority(r *rand.Rand, first bool) int64 {
	if first && !o.handovers {
		return least - 1
	}
	return least + r.Int64N(most-least+1)
}

// forever is longer than any seed runs.
const forever = 24 * 3600 * protocol.Second

// scenario is what the simulator is given. Who is late joins in the first minute.
func (o *options) scenario(r *rand.Rand) sim.Scenario {
	t := &o.preset.timing
	s := sim.Scenario{
		Seed: o.seed, Participants: sim.Tree(o.size, o.fanout, o.adaptive), Timing: *t,
		Settings: protocol.Settings{Models: o.models, Resources: o.resources, Open: o.open},
		Fanout:   o.fanout, Order: sim.Shuffled, Fast: !o.full,
		Network:  sim.Network{Latency: o.latency},
		Register: sim.Register{Latency: o.latency}, NewCandidate: o.newCandidate(),
		Workload: o.workload(), Configure: o.configure,
		Start: o.settled(), Duration: forever, Registers: o.registers, AllowOverlap: o.unheard,
	}
	for i := range s.Participants {
		p := &s.Participants[i]
		p.Priority = o.priority(r, i == 0)
		p.Root, p.Candidate, p.Creates = false, i <= o.candidates, i == 0 || o.creators && i <= o.candidates
		if o.registers > 1 && p.Candidate {
			p.Register = i % o.registers
		}
		if o.places && p.Candidate {
			p.Place = p.ID
		}
		p.ClockOffset = protocol.Time(r.IntN(1000)) * protocol.Second
		p.ClockDrift = o.drift(r)
		if i >= o.size-o.late {
			p.Joins = s.Start + protocol.Time(r.Int64N(int64(60*protocol.Second)))
		}
		if o.spread {
			w := o.workloadOf(p.ID)
			p.Workload = &w
		}
	}
	for i := range o.visitors {
		s.Participants = append(s.Participants, sim.Participant{
			ID: fmt.Sprintf("place %d", i), Absent: true, Workload: new(sim.Workload),
			ClockOffset: protocol.Time(r.IntN(1000)) * protocol.Second, ClockDrift: o.drift(r),
		})
	}
	return s
}

// remembers reports whether participants keep what their next process goes on with, as brokers and
// gateways do. Where a will is trusted, nobody may go by what a process held when it has ended.
func (o *options) remembers() bool { return o.places && !o.volatile && o.registers == 0 && !o.trust }

func (o *options) newCandidate() func(protocol.Config, lease.Config) (sim.Candidate, error) {
	return func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
		c := candidate.Config{Protocol: p, Lease: l, Announce: p.Timing.TTL}
		if o.volatile {
			c.Lease.FirstTerm = l.Wall // as package qosmutex does
		}
		if !o.remembers() {
			return candidate.New(c)
		}
		f := o.notesOf(p.Self.ID)
		c.Protocol.Former, c.Protocol.Held = f.session, slices.Clone(f.held)
		c.Lease.Members, c.Lease.Known = f.members()
		c.Lease.Held, c.Lease.HeldIn = c.Protocol.Held, slices.Clone(f.terms)
		m, err := candidate.New(c)
		return &noting{m, keeping{m, p.Self, f, len(f.held) > 0}}, err
	}
}

func (o *options) workload() sim.Workload {
	w := sim.Workload{Resources: o.demanded(), Hold: o.hold, Think: o.think}
	if o.deadlines {
		w.Deadlines = []protocol.Duration{o.preset.hold, 5 * o.preset.hold, 30 * o.preset.hold}
		w.GiveUp = o.seed%2 == 0
	}
	return w
}

// workloadOf is that of a member, which asks for some of the resources where clients
// are on different ones.
func (o *options) workloadOf(id string) sim.Workload {
	w := o.workload()
	if o.spread {
		r := o.chance(id)
		r.Shuffle(len(w.Resources), func(i, j int) { w.Resources[i], w.Resources[j] = w.Resources[j], w.Resources[i] })
		w.Resources = w.Resources[:1+r.IntN(len(w.Resources))]
	}
	return w
}

// chance draws for one member, the same whenever it is asked.
func (o *options) chance(id string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return rand.New(rand.NewPCG(o.seed, h.Sum64()))
}

// configure changes what a member is configured with. That everybody has the same
// bound on drift is an assumption.
func (o *options) configure(c *protocol.Config) {
	c.MaxWaiting, c.TrustSuspect = o.maxWaiting, o.trust
	if !o.mixed {
		return
	}
	r, t := o.chance(c.Self.ID), &c.Timing
	some := func(of protocol.Duration, percent ...int) protocol.Duration {
		return of * protocol.Duration(percent[r.IntN(len(percent))]) / 100
	}
	t.TTL = some(t.TTL, 50, 100, 100, 200)
	t.Heartbeat = min(some(t.Heartbeat, 30, 60, 100), t.TTL/4)
	t.JoinWait = some(t.JoinWait, 50, 100, slowest)
	t.MoveAfter = some(t.MoveAfter, 25, 100, 400)
	t.Hop = some(t.Hop, 50, 100, 200)
	if o.adaptive { // in a static tree everybody has a place
		c.Fanout = 2 + r.IntN(7)
	}
}

// slowest is, in percent of the usual, how slow a member can be whose configuration
// is another one.
const slowest = 300

// ttl is the longest that the topic may have.
func (o *options) ttl() protocol.Duration {
	if o.mixed {
		return 2 * o.preset.timing.TTL
	}
	return o.preset.timing.TTL
}

// slowed is a span as the slowest member has it.
func (o *options) slowed(d protocol.Duration) protocol.Duration {
	if o.mixed {
		return d * slowest / 100
	}
	return d
}

// drift draws the speed of a clock within the bound of the timing, often at it.
func (o *options) drift(r *rand.Rand) int64 {
	bound := int64(o.preset.timing.Drift * 1e6)
	switch r.IntN(4) {
	case 0:
		return bound
	case 1:
		return -bound
	}
	return r.Int64N(2*bound+1) - bound
}
