package simulation

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// latest is how late a message can be in the world of bad networks.
func (o *options) latest() protocol.Duration { return 3 * o.preset.timing.TTL }

// lateMessages lets one message in a hundred take longer than a session. Whatever is
// sent to the same receiver after it waits behind it, unless messages are reordered.
func lateMessages(r *run) (func(), bool) {
	t := r.preset.timing.TTL
	return r.slow(sim.Tail{Usual: r.latency, Share: 0.01, Rare: sim.Uniform(t/2, r.latest())})
}

// lateLink is slowLink with a pair beyond a session.
func lateLink(r *run) (func(), bool) {
	t := r.preset.timing.TTL
	return r.slow(r.oddPair(r.between(t/2, t*3/2), r.between(r.preset.latency, t*3/2)))
}

// oddPair gives each pair a latency of its own, and one pair others.
func (r *run) oddPair(there, back protocol.Duration) sim.Matrix {
	n := len(r.members)
	each := make([][]protocol.Duration, n)
	for i := range each {
		each[i] = make([]protocol.Duration, n)
		for j := range each[i] {
			each[i][j] = r.between(r.preset.latency, 10*r.preset.latency)
		}
	}
	pair := r.rng.Perm(n)
	each[pair[0]][pair[1]], each[pair[1]][pair[0]] = there, back
	return sim.Matrix{Each: each}
}

// stall holds up whatever comes from one of these and goes to it.
func stall(which ...who) apply {
	return func(r *run) (func(), bool) {
		m := r.pick(which...)
		if m == nil {
			return nil, false
		}
		t := r.preset.timing.TTL
		until := r.sim.Now() + r.between(t/4, 2*t)
		r.sim.Stall(m.id, until)
		if r.rng.IntN(2) == 0 {
			return r.seize(m, func() { r.sim.Reconnect(m.id) }), true // a keep-alive was missed
		}
		r.sim.At(until, r.seize(m, func() {})) // all of it arrives
		return nil, true
	}
}

// cutOneWay cuts one member off from what others send, or the others from what it sends.
func cutOneWay(r *run) (func(), bool) {
	return r.divide(func(names []string) {
		one, others := names[:1], names[1:]
		if r.rng.IntN(2) == 0 {
			one, others = others, one
		}
		r.sim.Sever(one, others)
	})
}

// modelsAtAChange changes the models again and again, from several members, while
// another root comes.
func modelsAtAChange(r *run) (func(), bool) {
	heal, ok := crash(root)(r)
	if !ok {
		return nil, false
	}
	for range 2 + r.rng.IntN(4) {
		r.sim.At(r.sim.Now()+r.between(0, 2*r.preset.timing.Grace()), func() { changeModels(r) })
	}
	return heal, true
}

// changeResources takes one resource from the topic while it is in use, whose name it may
// accept all the same.
func changeResources(r *run) (func(), bool) {
	m := r.pick()
	if m == nil {
		return nil, false
	}
	i := r.rng.IntN(len(r.resources))
	r.sim.SetResources(m.id, slices.Concat(r.resources[:i], r.resources[i+1:]), r.rng.IntN(3) == 0)
	return r.restoreResources, true
}

// restoreResources repeats itself, as a participant does, until the root has them.
func (r *run) restoreResources() {
	for _, m := range r.free() {
		if s := r.sim.Status(m.id); s.Role == protocol.Root && s.Settings.Open == r.open && slices.Equal(s.Settings.Resources, slices.Sorted(slices.Values(r.resources))) {
			return
		}
	}
	if m := r.pick(); m != nil {
		r.sim.SetResources(m.id, r.resources, r.open)
	}
	r.sim.At(r.sim.Now()+r.preset.timing.TTL, r.restoreResources)
}

// trustedWillOfTheRoot tells everybody who trusts it that the root has ended.
func trustedWillOfTheRoot(r *run) (func(), bool) {
	m := r.pick(root)
	if m == nil || !r.trust {
		return nil, false
	}
	was := r.sim.Node(m.id)
	heal := r.fell(m)
	r.suspect(was, r.free())
	return heal, true
}

// rush lets everybody ask for one resource at once, more than its queues hold and
// more than can be in time.
func rush(r *run) (func(), bool) {
	asking := r.free()
	all := r.demanded()
	wanted := all[r.rng.IntN(len(all))]
	for _, m := range asking {
		for range 1 + r.rng.IntN(8) {
			r.sim.Request(m.id, sim.Request{Resource: wanted, Hold: r.between(0, r.preset.hold), Within: r.within()})
		}
	}
	return nil, len(asking) > 0
}

// within draws a deadline where there are some.
func (r *run) within() protocol.Duration {
	if !r.deadlines || r.rng.IntN(3) == 0 {
		return 0
	}
	return r.between(1, 60*r.preset.hold)
}
