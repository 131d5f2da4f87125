package simulation

import (
	"fmt"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// calmly is a world in which nothing breaks but, perhaps, members are killed one at a
// time. All the time the gaps are bounded: see gapBound.
func calmly(r *run) error {
	for r.sim.Now() < r.settled()+r.rest {
		r.sim.ResetGaps()
		over := false
		if r.kills {
			r.killing(&over)
		}
		err := r.watchGaps(r.between(10*protocol.Second, 30*protocol.Second))
		over = true
		if err != nil {
			return err
		}
		r.outcome.rounds++
		for len(r.healing) > 0 {
			if err := r.until(r.sim.Now() + r.preset.timing.TTL/8); err != nil {
				return err
			}
		}
		if err := r.demandService(); err != nil {
			return err
		}
	}
	return nil
}

// gapBound is the longest time in which a member may wait for a resource that nobody
// holds. Without faults a request and a grant cross the tree, and now and then something
// is repeated at the next heartbeat: two heartbeats, half a session. A member that goes to
// a place which has gone meanwhile asks for another one after four times its own JoinWait;
// where that is longer than usual, so is the gap. When a member is
// killed, the session that has the token ends a grace after its last heartbeat, and two
// heartbeats are left for what was lost on the way to be asked for again. That may be
// the session of a visitor below, which heard no answer when it departed and lived on
// for closeWait. A root that its predecessor named counts all sessions from then on; one that
// took over does so once the lease of its predecessor, which was killed, has ended.
func (r *run) gapBound() protocol.Duration {
	t := r.timing()
	bound := max(2*t.Heartbeat, t.Heartbeat+4*r.slowed(t.JoinWait))
	if r.kills {
		bound += t.Grace() + closeWait
	}
	if r.kills && (r.handovers || r.rootKills) {
		bound += t.Grace() + 2*t.Heartbeat
	}
	if r.rootKills {
		bound += t.TTL / 2
	}
	if r.deaths { // the next in the queue has died as well
		bound += t.Grace() / 2
	}
	return bound
}

// timing is the preset with the TTL that is in force: of whoever created the topic.
func (r *run) timing() protocol.Timing {
	t := r.preset.timing
	if ttl := r.sim.Record().Record.TTL; ttl > 0 {
		t.TTL = ttl
	}
	return t
}

// watchGaps runs for a while and demands that no gap is longer than the bound.
func (r *run) watchGaps(length protocol.Duration) error {
	bound, until := r.gapBound(), r.sim.Now()+length
	for r.sim.Now() < until {
		if err := r.until(r.sim.Now() + r.preset.timing.TTL/8); err != nil {
			return err
		}
		gap := r.sim.LongestGap()
		r.outcome.gap.note(gap, &r.options, bound)
		if gap.For > bound {
			return fmt.Errorf("%v: somebody waits for %s from %.3f s on and nobody holds it for %.3f s, with a bound of %.3f s;%s",
				&r.options, gap.Resource, inSeconds(gap.From), inSeconds(gap.For), inSeconds(bound), r.standing())
		}
	}
	return nil
}

// killing kills one member or visitor after another, with so much time between them
// that the session of the one has ended before the other dies.
func (r *run) killing(over *bool) {
	var kill func()
	kill = func() {
		if *over {
			return
		}
		which := []who{notRoot}
		if r.rootKills && r.rng.IntN(3) == 0 {
			which[0] = root
		}
		if m := r.pick(which...); m != nil {
			a := &active{"kill", r.fell(m)}
			r.healing = append(r.healing, a)
			r.sim.At(r.sim.Now()+either.draw(r), func() { r.heal(a) })
			r.outcome.kills++
		}
		r.sim.At(r.sim.Now()+r.between(2, 4)*r.timing().Grace(), kill)
	}
	r.sim.At(r.sim.Now()+r.between(0, r.preset.timing.TTL), kill)
}

// gaps is the longest, as a share of its bound, in seeds of one world.
type gaps struct {
	sim.Gap
	seed  uint64
	share float64 // of its bound
	ttls  float64 // how many sessions it lasted
}

func (g *gaps) note(gap sim.Gap, o *options, bound protocol.Duration) {
	g.add(gaps{gap, o.seed, float64(gap.For) / float64(bound), float64(gap.For) / float64(o.preset.timing.TTL)})
}

func (g *gaps) add(o gaps) {
	if o.share > g.share {
		*g = o
	}
}
