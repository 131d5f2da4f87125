package simulation

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

type apply = func(r *run) (heal func(), ok bool)

// crash ends one of these, and starts it again.
func crash(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(which...)
		if m == nil {
			return nil, false
		}
		return r.fell(m), true
	}
}

// fell ends members at one instant, and returns what starts them again.
func (r *run) fell(all ...*member) func() {
	for _, m := range all {
		r.crash(m)
	}
	lives := make([]int, len(all))
	for i, m := range all {
		lives[i] = m.life
	}
	return func() {
		for i, m := range all {
			if m.life == lives[i] {
				r.restart(m)
			}
		}
	}
}

func crashSeveral(r *run) (func(), bool) {
	victims := r.free()
	if len(victims) < 3 {
		return nil, false
	}
	victims = victims[:2+r.rng.IntN(len(victims)-2)]
	for _, m := range victims {
		if s := r.sim.Status(m.id); !notRoot(r, m, &s) {
			return nil, false
		}
	}
	return r.fell(victims...), true
}

// crashAll ends everybody, also those with a fault of their own.
func crashAll(r *run) (func(), bool) {
	if !r.everybodyHasJoined() {
		return nil, false
	}
	all := r.up()
	return r.fell(all...), len(all) > 0
}

func restartAtOnce(r *run) (func(), bool) {
	m := r.pick(notRoot, resident)
	if m == nil {
		return nil, false
	}
	r.fell(m)()
	return nil, true
}

// restartRootAtOnce is what happens to the root of a broker that is restarted.
func restartRootAtOnce(r *run) (func(), bool) {
	m := r.pick(root, resident)
	if m == nil {
		return nil, false
	}
	r.sim.At(r.sim.Now()+r.between(0, r.preset.timing.TTL/4), r.fell(m))
	return nil, true
}

// crashForGood leaves at least three, and in a static tree all, whose children have
// no other place.
func crashForGood(r *run) (func(), bool) {
	m := r.pick(notRoot, resident, dispensable)
	if m == nil || !r.adaptive || len(r.residents(r.free())) < 4 {
		return nil, false
	}
	r.crash(m)
	m.forGood = true
	return nil, true
}

func lastWill(r *run) (func(), bool) {
	m := r.pick(notRoot)
	if m == nil {
		return nil, false
	}
	was := r.sim.Node(m.id)
	heal := r.fell(m)
	r.suspect(was, r.free())
	return heal, true
}

func lateLastWill(r *run) (func(), bool) {
	m := r.pick(notRoot, resident)
	if m == nil {
		return nil, false
	}
	was := r.sim.Node(m.id)
	r.fell(m)()
	r.sim.At(r.sim.Now()+r.between(0, r.preset.timing.TTL), func() { r.suspect(was, r.free()) })
	return nil, true
}

func falseSuspicion(r *run) (func(), bool) {
	m := r.pick()
	if m == nil || r.trust { // then two may hold: docs/guarantees.md
		return nil, false
	}
	some := r.free()
	r.suspect(r.sim.Node(m.id), some[:1+r.rng.IntN(len(some))])
	return nil, true
}

func (r *run) suspect(of protocol.Node, by []*member) {
	for _, m := range by {
		if m.id != of.ID {
			r.sim.Suspect(of, m.id)
		}
	}
}

// pause suspends one of these.
func pause(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(which...)
		if m == nil {
			return nil, false
		}
		return r.halt(m), true
	}
}

func (r *run) halt(m *member) func() {
	r.sim.Pause(m.id)
	return r.seize(m, func() { r.sim.Resume(m.id) })
}

func pauseAll(r *run) (func(), bool) {
	all := r.free()
	if len(all) < 2 {
		return nil, false
	}
	var resume []func()
	for _, m := range all {
		resume = append(resume, r.halt(m))
	}
	return func() {
		for _, f := range resume {
			f()
		}
	}, true
}

// stutter pauses one for short times until it is healed.
func stutter(r *run) (func(), bool) {
	return r.pulse(r.preset.timing.Heartbeat/2, r.preset.timing.Heartbeat, r.sim.Pause, r.sim.Resume)
}

// pulse does something to one and undoes it, again and again, until it is healed: each
// time it lasts down at most, and up at most until the next time.
func (r *run) pulse(down, up protocol.Duration, do, undo func(id string)) (func(), bool) {
	m := r.pick()
	if m == nil {
		return nil, false
	}
	over, life := false, m.life
	var turn func()
	turn = func() {
		if over || m.life != life {
			return
		}
		do(m.id)
		r.sim.At(r.sim.Now()+r.between(0, down), func() {
			if m.life == life {
				undo(m.id)
				r.sim.At(r.sim.Now()+r.between(1, up), turn)
			}
		})
	}
	turn()
	return r.seize(m, func() { over = true; undo(m.id) }), true
}

// clockDrift is no fault of its own: whatever else is with the member stays.
func clockDrift(r *run) (func(), bool) {
	m := r.pick()
	if m == nil {
		return nil, false
	}
	r.sim.SetDrift(m.id, r.drift(r.rng))
	return nil, true
}

// depart lets one of these leave, and comes back with a new incarnation.
func depart(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(append(which, resident)...)
		if m == nil || !r.adaptive && len(r.sim.Status(m.id).Children) > 0 {
			return nil, false
		}
		r.sim.Depart(m.id)
		m.up, m.busy = false, true
		life := m.life
		return func() {
			if m.life == life {
				r.crash(m)
				r.restart(m)
			}
		}, true
	}
}

// departAll lets everybody leave, so that nobody takes part any more; visitors come all the time.
// In half of the cases some end without a word in between.
func departAll(r *run) (func(), bool) {
	all := r.free()
	if !r.adaptive || !r.everybodyHasJoined() || len(all) < 2 {
		return nil, false
	}
	rude := 0
	if r.rng.IntN(2) == 0 {
		rude = 1 + r.rng.IntN(3)
	}
	back := r.between(0, 2*r.preset.timing.TTL)
	for _, m := range all {
		life, crashes := m.life, r.rng.IntN(8) < rude
		m.busy = true
		r.sim.At(r.sim.Now()+r.between(0, r.preset.timing.TTL), func() {
			switch {
			case m.life != life:
				return
			case crashes:
				r.fell(m)
			default:
				r.sim.Depart(m.id)
				m.up = false
			}
			life = m.life
			r.sim.At(r.sim.Now()+r.between(0, closeWait)+back, func() {
				if m.life != life {
					return
				}
				if !crashes {
					r.crash(m)
				}
				r.restart(m)
			})
		})
	}
	return nil, true
}

// priorityStorm changes priorities until it is healed.
func priorityStorm(r *run) (func(), bool) {
	over := false
	var gust func()
	gust = func() {
		if over {
			return
		}
		if m := r.pick(); m != nil {
			r.sim.SetPriority(m.id, r.priority(r.rng, m.first))
		}
		r.sim.At(r.sim.Now()+r.between(1, r.preset.timing.MoveAfter), gust)
	}
	gust()
	return func() { over = true }, true
}

func changeModels(r *run) (func(), bool) {
	m := r.pick()
	if m == nil {
		return nil, false
	}
	all := protocol.AllModels()
	models := all[r.rng.IntN(len(all))]
	switch r.rng.IntN(4) {
	case 0:
		models.Release = protocol.Retain
	case 1:
		models.Release = protocol.Direct
	}
	r.sim.SetModels(m.id, models)
	return nil, true
}

func withdrawals(r *run) (func(), bool) {
	return nil, r.askAside(func(m *member, ref uint64) {
		r.later(m, r.between(0, 4*r.turn()), func() { r.sim.Withdraw(ref) })
	}, false)
}

func burst(r *run) (func(), bool) {
	return nil, r.askAside(func(*member, uint64) {}, true)
}

// askAside makes requests beside the workload's.
func (r *run) askAside(then func(*member, uint64), try bool) bool {
	asking := r.free()
	for _, m := range asking {
		for range 1 + r.rng.IntN(3) {
			wanted := r.demanded()
			ref := r.sim.Request(m.id, sim.Request{
				Resource: wanted[r.rng.IntN(len(wanted))], Hold: r.between(0, r.preset.hold), Try: try && r.rng.IntN(2) == 0,
			})
			then(m, ref)
		}
	}
	return len(asking) > 0
}

func longStay(r *run) (func(), bool) {
	m := r.pick()
	if m == nil {
		return nil, false
	}
	ref := r.sim.Request(m.id, sim.Request{Resource: r.resources[0], Hold: sim.Forever})
	return r.seize(m, func() {
		if r.sim.Inside(ref) {
			r.sim.Leave(ref)
		} else {
			r.sim.Withdraw(ref)
		}
	}), true
}
