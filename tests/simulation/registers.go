package simulation

import (
	"slices"

	"padme/qosmutex/sim"
)

// restartRegister is over at once: until the register makes writes again is part of the
// time that everybody has to recover.
func restartRegister(r *run) (func(), bool) {
	r.sim.RestartRegister()
	return nil, true
}

func closeRegister(r *run) (func(), bool) {
	if r.net.closed {
		return nil, false
	}
	r.net.closed = true
	r.sim.CloseRegister()
	return func() { r.net.closed = false; r.sim.OpenRegister() }, true
}

// away takes the register from one of these.
func away(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(append(which, able)...)
		if m == nil {
			return nil, false
		}
		r.sim.Away(m.id)
		return r.seize(m, func() { r.sim.Back(m.id) }), true
	}
}

// cutAndAway takes the broker as well.
func cutAndAway(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(append(which, able)...)
		if m == nil {
			return nil, false
		}
		heal := r.sever(m)
		r.sim.Away(m.id)
		life := m.life
		return func() {
			if m.life == life {
				r.sim.Back(m.id)
			}
			heal()
		}, true
	}
}

func tireRegister(r *run) (func(), bool) {
	if r.net.tired {
		return nil, false
	}
	r.net.tired = true
	r.sim.SetRegister(sim.Register{Latency: r.latency, Lost: 0.1, Unanswered: 0.1, Late: 0.1, Lateness: 3 * r.ttl()})
	return func() { r.net.tired = false; r.sim.SetRegister(sim.Register{Latency: r.latency}) }, true
}

// loseRegister ends all who have the register of the root, and starts them again with an
// empty one: a file that was deleted.
func loseRegister(r *run) (func(), bool) {
	m := r.pick(root)
	if m == nil || !r.everybodyHasJoined() {
		return nil, false
	}
	var all []*member
	for _, o := range r.members {
		if o.able && o.register == m.register && !o.forGood {
			if o.busy || !o.up {
				return nil, false
			}
			all = append(all, o)
		}
	}
	heal := r.fell(slices.Clone(all)...)
	r.sim.LoseRegister(m.register)
	return heal, true
}
