package simulation

import (
	"math/rand/v2"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// world is a mix: who takes part, what they do and what happens to them. A seed
// draws one of them, unless -world names it.
type world struct {
	name  string
	means string // one sentence for docs/robustness.md
	share int    // how many of all shares of the seeds it gets
	// change makes of what a seed of the faults draws one of this world; nil: nothing.
	change func(o *options, r *rand.Rand)
	// play is what happens; nil: rounds of faults.
	play func(r *run) error
}

var worlds = []world{
	{name: "faults", share: 6, means: "3 to 9 members and all kinds of faults but those of other worlds"},
	{name: "ordinary", share: 2, means: "3 to 16 members and up to 24 visitors at a time, who come, lock once and go, up to ten a second; nothing breaks", change: ordinarily, play: calmly},
	{name: "kills", share: 2, means: "the same, and members, visitors and, where others can take its place, the root are killed one after another", change: killing, play: calmly},
	{name: "crowd", share: 1, means: "up to 40 members and visitors, with all faults of the first world", change: crowded},
	{name: "network", share: 2, means: "messages later than a session, connections that stall, cuts in one direction, long partitions, a register that is gone for long", change: badNetwork},
	{name: "registers", share: 0, means: "candidates that were given two or three different registers; in half of the seeds nothing keeps their roots from hearing each other, and nobody may enter beside another", change: manyRegisters},
	{name: "settings", share: 3, means: "members that are configured differently, and topics with Deadline, undeclared resources, short queues, trusted wills or a register in memory", change: oddSettings},
}

// drawWorld is a stream of its own, so that each world draws what it drew when there
// were fewer.
func drawWorld(seed uint64) *world {
	shares := 0
	for i := range worlds {
		shares += worlds[i].share
	}
	n := rand.New(rand.NewPCG(seed, 4)).IntN(shares)
	for i := range worlds {
		if n -= worlds[i].share; n < 0 {
			return &worlds[i]
		}
	}
	panic("unreachable")
}

// faults are the kinds that it has, its own more often than the others.
func (w *world) faults(unheard bool) []*fault {
	var all []*fault
	for i := range faults {
		switch f := &faults[i]; f.world {
		case "":
			if w.name != "registers" || audible[f.name] || unheard {
				all = append(all, f)
			}
		case w.name:
			all = append(all, f, f, f, f, f)
		}
	}
	return all
}

// audible are the faults after which a candidate that makes the first record of a topic
// in its register has heard of a root of another one, if there is one.
var audible = map[string]bool{
	"crash of a leaf": true, "crash of an inner participant": true, "crash of a holder": true, "crash of an inner holder": true,
	"crash of the root": true, "crash of several": true, "restart at once": true, "crash for good": true,
	"clock drift": true, "change of models": true, "departure": true, "withdrawals": true, "burst of requests": true, "long stay": true,
}

func manyRegisters(o *options, r *rand.Rand) {
	o.adaptive, o.late, o.places, o.handovers = true, 0, false, r.IntN(2) == 0
	o.candidates = 1 + r.IntN(o.size-1)
	o.creators, o.registers = true, 2+r.IntN(2)
	o.unheard = r.IntN(2) == 0
	o.rest = 200 * protocol.Second
}

func worldNamed(name string) *world {
	i := slices.IndexFunc(worlds, func(w world) bool { return w.name == name })
	if i < 0 {
		return nil
	}
	return &worlds[i]
}

// busy makes a topic whose members come and go, with a tree that adapts to it.
func busy(o *options, r *rand.Rand, members, places int) {
	o.size, o.fanout = members, 2+r.IntN(7)
	o.adaptive, o.candidates, o.creators, o.late = true, r.IntN(min(members, 7)), false, 0
	o.visitors = places
	o.arrivals = protocol.Duration(100+r.IntN(900)) * protocol.Millisecond
	o.spread = r.IntN(2) == 0
	o.mixed = r.IntN(3) == 0
	if r.IntN(2) == 0 { // else so many cannot be served
		o.hold = sim.Uniform(o.preset.hold/200, o.preset.hold/20)
	}
	o.rest = 60 * protocol.Second
}

func ordinarily(o *options, r *rand.Rand) {
	busy(o, r, 3+r.IntN(14), 4+r.IntN(21))
}

func killing(o *options, r *rand.Rand) {
	ordinarily(o, r)
	o.kills = true
	o.rootKills = r.IntN(2) == 0 && o.candidates >= 2
	o.deaths = r.IntN(2) == 0 && !o.rootKills && !o.handovers
}

func crowded(o *options, r *rand.Rand) {
	busy(o, r, 10+r.IntN(17), 4+r.IntN(11))
	o.deaths = r.IntN(2) == 0
}

func badNetwork(o *options, r *rand.Rand) {
	o.fanout = 2 + r.IntN(7)
	o.rest = 200 * protocol.Second
	if r.IntN(2) == 0 {
		o.adaptive, o.candidates, o.creators = true, 1+r.IntN(o.size-1), r.IntN(2) == 0
	}
	o.mixed = r.IntN(4) == 0
	if places := 1 + r.IntN(6); r.IntN(3) == 0 && o.adaptive {
		o.visitors, o.arrivals = places, protocol.Duration(100+r.IntN(2000))*protocol.Millisecond
	}
}

func oddSettings(o *options, r *rand.Rand) {
	o.rest = 200 * protocol.Second
	o.fanout = 2 + r.IntN(7)
	o.mixed = r.IntN(2) == 0
	o.spread = r.IntN(3) == 0
	switch r.IntN(4) {
	case 0:
		o.models.Priority = protocol.Deadline
	case 1:
		o.open = true
	case 2:
		o.maxWaiting = 1 + r.IntN(6)
	case 3:
		o.trust = true
	}
	defer func() { o.volatile = o.candidates == 0 && r.IntN(3) == 0 }()
	o.deadlines = o.models.Priority == protocol.Deadline || r.IntN(4) == 0
	if places := 1 + r.IntN(6); r.IntN(3) == 0 && o.adaptive {
		o.visitors, o.arrivals = places, protocol.Duration(100+r.IntN(2000))*protocol.Millisecond
	}
}
