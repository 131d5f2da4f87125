package simulation

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// member is a participant as the faults see it.
type member struct {
	id      string
	founder bool
	visitor bool // a place for those who come, lock once and go
	joins   protocol.Time
	up      bool // runs, and was not asked to depart
	busy    bool // a fault of its own is on it
	forGood bool // ended, and does not come back
	life    int  // rises with each crash
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

func holder(_ *run, _ *member, s *protocol.Status) bool {
	return slices.ContainsFunc(s.Resources, func(r protocol.ResourceStatus) bool { return r.Inside })
}

func resident(_ *run, m *member, _ *protocol.Status) bool { return !m.visitor }

// mortal is a member that may be ended and started again now. Without voters one who
// is handing the root over, or has lost its lease, is the only one who can be the
// root: nobody is mortal then but with the founder.
func mortal(r *run, m *member, _ *protocol.Status) bool {
	return (!m.founder || !r.divided() && !r.disturbed()) && (r.maxVoters > 0 || r.reigned())
}

// reigned reports whether there is a root.
func (r *run) reigned() bool {
	return slices.ContainsFunc(r.members, func(m *member) bool { return r.sim.Status(m.id).Role == protocol.Root })
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

// divided reports whether messages may be lost although both ends hear their own
// heartbeats. A founder that starts then, or has just started, would take silence
// for an empty topic: what its lease tells it is that it is connected, not to whom.
func (r *run) divided() bool { return r.net.split || r.net.loss > 0 }

// disturbed reports whether somebody has a fault of its own where there are voters.
// Who founds the topic while a majority of them is suspended or cut off, and for longer
// than it listens, founds it beside them; docs/guarantees.md says so.
func (r *run) disturbed() bool {
	return r.maxVoters > 0 && slices.ContainsFunc(r.members, func(m *member) bool { return m.busy })
}

// founding reports whether somebody is about to find out whether the topic has a
// root, or will be when it starts again: no time to divide the network.
func (r *run) founding() bool {
	return slices.ContainsFunc(r.members, func(m *member) bool {
		return m.founder && !m.up || m.up && r.sim.Status(m.id).Role == protocol.Founding
	})
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

// electable reports whether a root can stay or come without help: a majority lives of
// the newest voters that anybody knows of, or somebody founds the topic where there are
// none. A root whose voters have ended is one no longer than its lease, and nobody can
// take the place of one that decides alone, or was to.
func (r *run) electable() bool {
	var newest protocol.Status
	for _, m := range r.up() {
		s := r.sim.Status(m.id)
		if s.Role == protocol.Root && s.Named == (protocol.Grant{}) {
			return true // without voters
		}
		if len(s.Voters) > 0 && s.Named.Compare(newest.Named) > 0 {
			newest = s
		}
	}
	if len(newest.Voters) == 1 {
		return r.reigned() || r.founding()
	}
	living := 0
	for _, v := range newest.Voters {
		if slices.ContainsFunc(r.up(), func(m *member) bool { return r.sim.Node(m.id) == v }) {
			living++
		}
	}
	return living > len(newest.Voters)/2 || len(newest.Voters) == 0 && r.founding()
}

// bereft returns a former root that waits for a sign of an heir that has ended; nil
// if there is none.
func (r *run) bereft() *member {
	for _, m := range r.up() {
		heir := r.sim.Status(m.id).Heir
		if !heir.IsZero() && !slices.ContainsFunc(r.up(), func(o *member) bool { return o.id == heir.ID }) {
			return m
		}
	}
	return nil
}

// gone reports whether a member has ended.
func (m *member) gone() bool { return !m.up }

func (r *run) crash(m *member) {
	r.collect(m)
	r.sim.Crash(m.id)
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
}

// applyNetwork puts the present network in force.
func (r *run) applyNetwork() {
	n := sim.Network{Latency: r.latency, Reorder: r.net.reorder, Loss: r.net.loss, Duplicate: r.net.duplicate}
	if r.net.latency != nil {
		n.Latency = r.net.latency
	}
	r.sim.SetNetwork(n)
}
