package simulation

import "padme/qosmutex/protocol"

// settled is how long the first tree takes to form: each level joins after the one
// above it, and asks again after at most eight times JoinWait.
func (o *options) settled() protocol.Duration {
	return 2*protocol.Second + o.levels()*12*o.slowed(o.preset.timing.JoinWait)
}

// levels are more than a tree of so many members has: of few, each may have a level of
// its own, as whoever joins after the others is below them if it is less important.
// Of more, two at least are children of most.
func (o *options) levels() protocol.Duration {
	if o.size > 9 {
		return protocol.Duration(9 + (o.size-9)/4)
	}
	return protocol.Duration(o.size)
}

// bound is how long after the last fault has ended it takes, if nobody asks any
// more, until everybody who waits has been served, whatever the models, and every
// token is at home. It is the sum of what can come one after another:
//
//   - Whoever was cut off may have believed in its session, its lease or its parent
//     until just before, and notices after Grace and, the deeper it is, a heartbeat
//     per level. A root that lost its lease listens for Grace before it founds the
//     topic again, and then a session that ended in the last moment lapses after
//     Grace: three in a row, and a heartbeat for each level and again for each of
//     the questions after a token, which go from one custodian to the next.
//   - Then the tree forms: each level after the one above it, with an answer that may
//     have to be asked for again after eight times JoinWait, and an attachment that
//     is given up after four times. The root may be handed over, after MoveAfter.
//   - Then those who wait are served one after another, and who is inside leaves.
func (o *options) bound(waiting int) protocol.Duration {
	t := &o.preset.timing
	n := o.levels()
	grace := protocol.Timing{TTL: o.ttl(), Drift: t.Drift}.Grace()
	recovery := 3*grace + 2*n*t.Heartbeat + 12*n*o.slowed(t.JoinWait) + t.MoveAfter
	if o.world.name == "network" { // what is on its way may be late, and hold up what is behind it
		recovery += 2 * o.latest()
	}
	if o.registers > 1 { // until one stops, its members give up, or the other is silent for long enough; and a new register
		recovery += 4 * grace
	}
	return recovery + protocol.Duration(waiting+len(o.resources))*o.turn()
}

// turn is how long one entry takes at most: the stay, the Release on its way up, a
// Request behind it under Replace, the Reply on its way down.
func (o *options) turn() protocol.Duration {
	depth := o.levels() - 1
	return o.preset.hold + 3*depth*10*o.preset.latency
}
