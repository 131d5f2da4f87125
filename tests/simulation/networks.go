package simulation

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// cut takes the connection from one of these.
func cut(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(which...)
		if m == nil {
			return nil, false
		}
		return r.sever(m), true
	}
}

func (r *run) sever(m *member) func() {
	r.sim.Cut(m.id)
	return r.seize(m, func() {
		if !r.net.down {
			r.sim.Reconnect(m.id)
		}
	})
}

func cutSubtree(r *run) (func(), bool) {
	top := r.pick(inner)
	if top == nil {
		return nil, false
	}
	var heal []func()
	below := map[string]bool{top.id: true}
	for range r.members { // as often as the tree can be deep
		for _, m := range r.members {
			below[m.id] = below[m.id] || m.up && below[r.sim.Status(m.id).Parent.ID]
		}
	}
	for _, m := range r.members {
		if below[m.id] && m.up && !m.busy {
			heal = append(heal, r.sever(m))
		}
	}
	return func() {
		for _, f := range heal {
			f()
		}
	}, true
}

// flap cuts and connects one until it is healed.
func flap(r *run) (func(), bool) {
	return r.pulse(r.preset.timing.Heartbeat, 2*r.preset.timing.Heartbeat, func(id string) {
		if !r.net.down {
			r.sim.Cut(id)
		}
	}, func(id string) {
		if !r.net.down {
			r.sim.Reconnect(id)
		}
	})
}

func reconnect(r *run) (func(), bool) {
	m := r.pick()
	if m == nil || r.net.down {
		return nil, false
	}
	r.sim.Reconnect(m.id)
	return nil, true
}

func brokerDies(r *run) (func(), bool) {
	if r.net.down || !r.everybodyHasJoined() {
		return nil, false
	}
	r.net.down = true
	for _, m := range r.members {
		if m.up {
			r.sim.Cut(m.id)
		}
	}
	return func() {
		r.net.down = false
		for _, m := range r.members {
			if m.up {
				r.sim.Reconnect(m.id)
			}
		}
	}, true
}

// divide lets a partition happen if there is none.
func (r *run) divide(do func(names []string)) (func(), bool) {
	if r.net.split {
		return nil, false
	}
	var names []string
	for _, i := range r.rng.Perm(len(r.members)) {
		names = append(names, r.members[i].id)
	}
	r.net.split = true
	do(names)
	return func() {
		r.net.split = false
		r.sim.Heal()
	}, true
}

func partition(r *run) (func(), bool) {
	return r.divide(func(names []string) { r.sim.Partition(names[:1+r.rng.IntN(len(names)-1)]) })
}

func oneWay(r *run) (func(), bool) {
	return r.divide(func(names []string) {
		i := 1 + r.rng.IntN(len(names)-1)
		r.sim.Sever(names[:i], names[i:])
	})
}

func nonTransitive(r *run) (func(), bool) {
	return r.divide(func(names []string) {
		r.sim.Sever(names[:1], names[1:2])
		r.sim.Sever(names[1:2], names[:1])
	})
}

func loss(r *run) (func(), bool) {
	if r.net.loss > 0 {
		return nil, false
	}
	r.net.loss = float64(1+r.rng.IntN(5)) / 100
	r.applyNetwork()
	return func() { r.net.loss = 0; r.applyNetwork() }, true
}

func duplication(r *run) (func(), bool) {
	if r.net.duplicate > 0 {
		return nil, false
	}
	r.net.duplicate = float64(1+r.rng.IntN(20)) / 100
	r.applyNetwork()
	return func() { r.net.duplicate = 0; r.applyNetwork() }, true
}

func reordering(r *run) (func(), bool) {
	if r.net.reorder {
		return nil, false
	}
	r.net.reorder = true
	r.applyNetwork()
	return func() { r.net.reorder = false; r.applyNetwork() }, true
}

func latencySpike(r *run) (func(), bool) {
	return r.slow(sim.Uniform(r.preset.latency, protocol.Duration(20+r.rng.IntN(180))*r.preset.latency))
}

// slowLink gives one pair a very long latency.
func slowLink(r *run) (func(), bool) {
	return r.slow(r.oddPair(r.preset.timing.TTL/8, r.preset.timing.TTL/8))
}

func (r *run) slow(l sim.Latency) (func(), bool) {
	if r.net.latency != nil {
		return nil, false
	}
	r.net.latency = l
	r.applyNetwork()
	return func() { r.net.latency = nil; r.applyNetwork() }, true
}
