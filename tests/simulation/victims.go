package simulation

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// member is a participant as the faults see it.
type member struct {
	id       string
	able     bool // to be the root
	register int  // of one that is able
	first    bool
	visitor  bool // a place for those who come, lock once and go
	joins    protocol.Time
	up       bool // runs, and was not asked to depart
	busy     bool // a fault of its own is on it
	forGood  bool // ended, and does not come back
	life     int  // rises with each crash
}

// who says whether a fault is for a member.
type who func(r *run, m *member, s *protocol.Status) bool

func root(_ *run, _ *member, s *protocol.Status) bool    { return s.Role == protocol.Root }
func notRoot(_ *run, _ *member, s *protocol.Status) bool { return s.Role != protocol.Root }
func leaf(_ *run, _ *member, s *protocol.Status) bool {
	return s.Role == protocol.Member && len(s.Children) == 0
}

func inner(_ *run, _ *member, s *protocol.Status) bool {
	return s.Role == protocol.Member && len(s.Children) > 0
}

func able(_ *run, m *member, _ *protocol.Status) bool { return m.able }

func holder(_ *run, _ *member, s *protocol.Status) bool {
	return slices.ContainsFunc(s.Resources, func(r protocol.ResourceStatus) bool { return r.Inside })
}

func resident(_ *run, m *member, _ *protocol.Status) bool { return !m.visitor }

// dispensable is whoever leaves somebody who can be the root.
func dispensable(r *run, m *member, _ *protocol.Status) bool {
	return !m.able || slices.ContainsFunc(r.members, func(o *member) bool { return o.able && o != m && !o.forGood })
}

// pick draws a member that runs, has no fault of its own and is all of these; nil
// if there is none.
func (r *run) pick(which ...who) *member {
	var able []*member
	for _, m := range r.members {
		if !m.up || m.busy || m.joins > r.sim.Now() {
			continue
		}
		s := r.sim.Status(m.id)
		if !slices.ContainsFunc(which, func(is who) bool { return !is(r, m, &s) }) {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[r.rng.IntN(len(able))]
}

// free lists, in an order of chance, the members that run and have no fault of
// their own.
func (r *run) free() []*member {
	var all []*member
	for _, m := range r.members {
		if m.up && !m.busy && m.joins <= r.sim.Now() {
			all = append(all, m)
		}
	}
	r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (r *run) residents(all []*member) []*member {
	return slices.DeleteFunc(all, func(m *member) bool { return m.visitor })
}

// everybodyHasJoined reports whether nobody is still to come for the first time.
func (r *run) everybodyHasJoined() bool {
	return !slices.ContainsFunc(r.members, func(m *member) bool { return m.joins > r.sim.Now() })
}

// up lists the members that run.
func (r *run) up() []*member {
	var all []*member
	for _, m := range r.members {
		if m.up && m.joins <= r.sim.Now() {
			all = append(all, m)
		}
	}
	return all
}

// gone reports whether a member has ended.
func (m *member) gone() bool { return !m.up }

func (r *run) crash(m *member) {
	r.collect(m)
	r.sim.Crash(m.id)
	if m.first && r.volatile {
		r.sim.LoseRegister(m.register)
	}
	m.up, m.busy = false, !m.visitor // whose place is free again
	m.life++
}

// restart starts a member that has crashed. Without a broker it starts without a
// connection. A visitor does not come back.
func (r *run) restart(m *member) {
	if m.visitor {
		return
	}
	r.sim.Restart(m.id)
	m.up, m.busy = true, false
	if r.net.down {
		r.sim.Cut(m.id)
	}
}

// seize puts a fault on a member, and returns what does heal if the member has not
// crashed meanwhile.
func (r *run) seize(m *member, heal func()) func() {
	m.busy = true
	life := m.life
	return func() {
		if m.life == life {
			m.busy = false
			heal()
		}
	}
}

// later does f after d if m still runs as it does now, without a fault of its own.
func (r *run) later(m *member, d protocol.Duration, f func()) {
	life := m.life
	r.sim.At(r.sim.Now()+d, func() {
		if m.up && m.life == life && !m.busy {
			f()
		}
	})
}

// network is what the present faults make of the network.
type network struct {
	loss, duplicate float64
	reorder         bool
	latency         sim.Latency // nil: as the seed has it
	split           bool        // one partition at a time
	down            bool        // the broker
	closed          bool        // the register
	tired           bool        // it loses requests and answers
}

// applyNetwork puts the present network in force.
func (r *run) applyNetwork() {
	n := sim.Network{Latency: r.latency, Reorder: r.net.reorder, Loss: r.net.loss, Duplicate: r.net.duplicate}
	if r.net.latency != nil {
		n.Latency = r.net.latency
	}
	r.sim.SetNetwork(n)
}
