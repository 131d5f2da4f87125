package simulation

import "padme/qosmutex/protocol"

// fault is a kind of fault.
type fault struct {
	name   string
	means  string // one sentence for docs/robustness.md
	lasts  span   // until it is healed; of one that comes and is over, once: nothing
	moving bool   // only where the root may be handed over
	world  string // only in this one; else in all that have rounds of faults
	// apply does it and returns what heals it, nil if nothing is to be healed; ok is
	// false if it cannot be now.
	apply func(r *run) (heal func(), ok bool)
}

// span is how long a fault lasts, in proportion to the time-to-live of a session.
type span uint8

const (
	once    span = iota
	brief        // shorter than a session
	lasting      // longer than a session
	either       // the one or the other
	long         // up to eight sessions
	noticed      // until everybody without a root has noticed
)

func (s span) draw(r *run) protocol.Duration {
	t := &r.preset.timing
	switch {
	case s == brief || s == either && r.rng.IntN(2) == 0:
		return r.between(t.TTL/100, t.TTL*9/10)
	case s == noticed:
		return t.Grace() + protocol.Duration(len(r.members)+2)*t.Heartbeat + r.between(0, t.TTL)
	case s == long:
		return r.between(3*t.TTL, 8*t.TTL)
	case s == once:
		return 0
	}
	return r.between(t.TTL*11/10, 3*t.TTL)
}

// faults are all kinds. A seed draws among those that can happen to it.
var faults = []fault{
	// Processes end.
	{name: "crash of a leaf", means: "a participant without children ends and comes back as a new incarnation", lasts: either, apply: crash(leaf)},
	{name: "crash of an inner participant", means: "one with children, not the root, ends and comes back", lasts: either, apply: crash(inner)},
	{name: "crash of a holder", means: "one that is inside ends and comes back", lasts: either, apply: crash(holder, notRoot)},
	{name: "crash of an inner holder", means: "one with children that is inside ends and comes back", lasts: either, apply: crash(inner, holder)},
	{name: "crash of the root", means: "the root ends and comes back once everybody has noticed", lasts: noticed, apply: crash(root)},
	{name: "crash of several", means: "two or more, not the root, end at one instant and come back one by one", lasts: either, apply: crashSeveral},
	{name: "crash of everybody", means: "all end at one instant and come back one by one", lasts: either, apply: crashAll},
	{name: "restart at once", means: "one ends and is back, as a new incarnation, at the same instant", lasts: once, apply: restartAtOnce},
	{name: "crash for good", means: "one ends and never comes back", lasts: once, apply: crashForGood},
	{name: "last will", means: "one ends, the transport of all others says so at once, and it comes back later", lasts: either, apply: lastWill},
	{name: "late last will", means: "one ends and is back at once; the others are told of its old incarnation's end only afterwards", lasts: once, apply: lateLastWill},
	{name: "false suspicion", means: "the transport of some believes that one has ended that lives", lasts: once, apply: falseSuspicion},

	// Processes stand still.
	{name: "short pause", means: "a process is suspended for less than a session", lasts: brief, apply: pause()},
	{name: "long pause", means: "a process, not the root's, is suspended for longer than a session", lasts: lasting, apply: pause(notRoot)},
	{name: "pause of a holder", means: "one that is inside is suspended for longer than its session", lasts: lasting, apply: pause(holder, notRoot)},
	{name: "pause of the root", means: "the root is suspended, for longer than its lease or for less", lasts: either, apply: pause(root)},
	{name: "pause of everybody", means: "all are suspended and go on at one instant", lasts: either, apply: pauseAll},
	{name: "stutter", means: "a process stops again and again for a fraction of a heartbeat", lasts: lasting, apply: stutter},

	// Connections break.
	{name: "cut", means: "a participant, not the root, has no connection", lasts: either, apply: cut(notRoot)},
	{name: "cut of a holder", means: "one that is inside has no connection for longer than its session", lasts: lasting, apply: cut(holder, notRoot)},
	{name: "cut of the root", means: "the root has no connection, for longer than its lease or for less", lasts: either, apply: cut(root)},
	{name: "cut of a subtree", means: "an inner participant and all below it have no connection", lasts: either, apply: cutSubtree},
	{name: "flapping connection", means: "a participant loses its connection and has it again, many times", lasts: lasting, apply: flap},
	{name: "reconnect", means: "a connection is lost and there again at once; what was under way to it is lost", lasts: once, apply: reconnect},
	{name: "death of the broker", means: "nobody hears anybody and everything under way is lost; afterwards all connect again, one by one", lasts: either, apply: brokerDies},

	// The network divides.
	{name: "partition", means: "two groups do not hear each other", lasts: either, apply: partition},
	{name: "one-way partition", means: "a group does not hear another that hears it", lasts: either, apply: oneWay},
	{name: "non-transitive partition", means: "two do not hear each other, and everybody else hears both", lasts: either, apply: nonTransitive},

	// Messages suffer.
	{name: "loss", means: "up to 5 % of the messages are lost", lasts: lasting, apply: loss},
	{name: "duplication", means: "up to 20 % of the messages come twice", lasts: lasting, apply: duplication},
	{name: "reordering", means: "messages of a pair overtake each other", lasts: lasting, apply: reordering},
	{name: "latency spike", means: "every message takes up to 20 times as long", lasts: brief, apply: latencySpike},
	{name: "slow link", means: "between two participants a message takes an eighth of a session", lasts: lasting, apply: slowLink},

	// The register.
	{name: "restart of the register", means: "it forgets renewals, and makes no write until their lease is over", lasts: once, apply: restartRegister},
	{name: "register gone", means: "it answers nobody, for longer than a lease or for less", lasts: either, apply: closeRegister},
	{name: "register out of reach", means: "one does not reach it", lasts: either, apply: away()},
	{name: "register out of reach of the root", means: "the root does not reach it", lasts: either, apply: away(root)},
	{name: "register beyond the cut", means: "the root reaches neither the register nor anybody", lasts: either, apply: cutAndAway(root)},
	{name: "loss at the register", means: "requests and answers are lost, and writes are made long after they were given up", lasts: lasting, apply: tireRegister},

	// Clocks, people, programs.
	{name: "clock drift", means: "the clock of one runs at another speed, within the bound", lasts: once, apply: clockDrift},
	{name: "priority storm", means: "priorities change often, so that participants move and the root is handed over", lasts: lasting, apply: priorityStorm},
	{name: "change of models", means: "the topic's models are changed while it runs", lasts: once, apply: changeModels},
	{name: "departure", means: "a participant, not the root, leaves as it should, and a new incarnation comes", lasts: either, apply: depart(notRoot)},
	{name: "departure of the root", means: "the root leaves as it should, and comes back as a member", lasts: either, moving: true, apply: depart(root)},
	{name: "withdrawals", means: "many ask and give up again, before or while their grant is on its way", lasts: once, apply: withdrawals},
	{name: "burst of requests", means: "many ask for several resources at once, and some try without waiting", lasts: once, apply: burst},
	{name: "long stay", means: "one stays inside for longer than a session", lasts: lasting, apply: longStay},

	// Of other worlds.
	{name: "register lost", means: "the register of the root is replaced by an empty one while those who have it do not run", lasts: either, world: "registers", apply: loseRegister},
	{name: "late messages", means: "one message in a hundred takes up to three sessions", lasts: lasting, world: "network", apply: lateMessages},
	{name: "late link", means: "between two participants a message takes up to one and a half sessions", lasts: lasting, world: "network", apply: lateLink},
	{name: "stalled connection", means: "a connection stays open and carries nothing for up to two sessions; then all of it arrives, or a new connection takes its place", lasts: lasting, world: "network", apply: stall(notRoot)},
	{name: "stalled connection of a holder", means: "the same, of one that is inside", lasts: lasting, world: "network", apply: stall(holder, notRoot)},
	{name: "stalled connection of the root", means: "the same, of the root", lasts: lasting, world: "network", apply: stall(root)},
	{name: "one-way cut", means: "one hears nobody, and is heard, or the other way round", lasts: lasting, world: "network", apply: cutOneWay},
	{name: "long partition", means: "two groups do not hear each other for up to eight sessions", lasts: long, world: "network", apply: partition},
	{name: "register gone for long", means: "it answers nobody for up to eight sessions", lasts: long, world: "network", apply: closeRegister},
	{name: "models during a change of root", means: "the root ends, and several change the models while another comes", lasts: noticed, world: "settings", apply: modelsAtAChange},
	{name: "change of resources", means: "one resource is taken from a topic in use, which may accept others instead, until that is taken back", lasts: either, world: "settings", apply: changeResources},
	{name: "trusted will of the root", means: "the root ends, and all others are told so and believe it", lasts: noticed, world: "settings", apply: trustedWillOfTheRoot},
	{name: "restart of the root at once", means: "the root ends and is started again before its lease is over", lasts: once, world: "settings", apply: restartRootAtOnce},
	{name: "departure of everybody", means: "all leave as they should, one by one within a session, except some that end without a word; new incarnations come, sometimes before the last has left", lasts: once, moving: true, world: "settings", apply: departAll},
	{name: "rush", means: "everybody asks for one resource several times, some within a deadline", lasts: once, world: "settings", apply: rush},
}
