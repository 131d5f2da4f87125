package simulation

import (
	"fmt"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// closeWait is for how long a process that ends waits until its machine has departed:
// as long as qosmutex.Topic.Close.
const closeWait = protocol.Second

// visits lets visitors come until the doors close.
func (r *run) visits() {
	if r.visitors == 0 {
		return
	}
	r.doors++
	open := r.doors
	var next func()
	next = func() {
		if r.doors == open {
			r.visit()
			r.sim.At(r.sim.Now()+r.pause(), next)
		}
	}
	next()
}

// pause is the time to the next arrival.
func (r *run) pause() protocol.Duration {
	return protocol.Duration(r.rng.ExpFloat64() * float64(r.arrivals))
}

// visit lets one come if there is a place: it asks for a resource, as pubsub-node lock
// does, and leaves the topic when it has had it, or has waited for too long.
func (r *run) visit() {
	var m *member
	for _, o := range r.members {
		if o.visitor && !o.up && !o.busy {
			m = o
			break
		}
	}
	if m == nil {
		return
	}
	was := m.id
	r.outcome.visits++
	m.id = fmt.Sprintf("v%d", r.outcome.visits)
	r.sim.Replace(was, m.id, r.priority(r.rng, false))
	m.up, m.busy = true, false
	m.life++
	if r.net.down {
		r.sim.Cut(m.id)
	}
	all := r.demanded()
	ref := r.sim.Request(m.id, sim.Request{
		Resource: all[r.rng.IntN(len(all))], Hold: r.between(0, r.preset.hold/10), Done: func() { r.goes(m, m.life) },
	})
	if r.deaths && r.rng.IntN(4) == 0 {
		r.later(m, r.between(0, 5*r.preset.hold), func() {
			if s := r.sim.Status(m.id); notRoot(r, m, &s) && dispensable(r, m, &s) {
				r.crash(m)
				r.outcome.deaths++
			}
		})
	}
	r.later(m, r.patience(), func() { r.sim.Withdraw(ref) })
}

// patience is how long a visitor waits: less than the time in which too many would
// gather.
func (r *run) patience() protocol.Duration { return r.between(10, 60) * r.preset.hold }

// goes lets a visitor leave the topic, and ends its process once it has, or has
// waited for that for as long as a process does.
func (r *run) goes(m *member, life int) {
	switch {
	case m.life != life || !m.up:
	case m.busy: // suspended or cut off: afterwards
		r.sim.At(r.sim.Now()+r.preset.timing.Heartbeat, func() { r.goes(m, life) })
	default:
		r.sim.Depart(m.id)
		m.up, m.busy = false, true
		r.sim.At(r.sim.Now()+closeWait, func() {
			if m.life != life {
				return
			}
			if r.sim.Status(m.id).Role != protocol.Departed {
				r.outcome.slowGoodbyes++
				r.sim.Depart(m.id) // and now at once
			}
			r.crash(m)
		})
	}
}
