package sim

import (
	"math/rand/v2"

	"padme/qosmutex/protocol"
)

// Draws are the requests of a participant's workload, in their order. A run with the same
// seed makes the same ones, whatever the algorithm and the network do, so that what is no
// simulation can be given the load of one.
type Draws struct {
	workload *Workload
	source   rand.PCG
}

// Draws returns those of a participant, by its place in Participants, as it first starts.
func (s *Scenario) Draws(i int) *Draws {
	d := &Draws{workload: s.Participants[i].Workload}
	if d.workload == nil {
		d.workload = &s.Workload
	}
	d.source.Seed(requestSeeds(s.Seed, i, 1))
	return d
}

// First is how long after the start of the workload the first request comes. It must be
// called once, before Next.
func (d *Draws) First() protocol.Duration { return d.workload.first(rand.New(&d.source)) }

// Next is the next request, and how long after it the one that follows comes: after it is made
// if arrivals are open, else after it is over.
func (d *Draws) Next() (r Request, gap protocol.Duration) {
	random := rand.New(&d.source)
	r = d.workload.next(random)
	return r, d.workload.gap(random)
}

// requestSeeds are what the requests of a participant are drawn from.
func requestSeeds(seed uint64, place int, incarnation uint64) (a, b uint64) {
	return seed, mix(uint64(place), incarnation)
}

// first draws how long after the start of the workload the first request comes: a closed
// loop starts with a request unless it is Settled.
func (w *Workload) first(r *rand.Rand) protocol.Duration {
	if w.open() || w.Settled {
		return w.gap(r)
	}
	return 0
}

// gap draws how long the next request comes after the one before, or after its end.
func (w *Workload) gap(r *rand.Rand) protocol.Duration {
	if w.open() {
		return w.Every.draw(r)
	}
	return w.Think.draw(r)
}

// next draws a request.
func (w *Workload) next(random *rand.Rand) Request {
	r := Request{Resource: w.Resources[0], GiveUp: w.GiveUp}
	if len(w.Resources) > 1 {
		r.Resource = w.Resources[random.IntN(len(w.Resources))]
	}
	r.Hold = w.Hold.draw(random)
	if len(w.Priorities) > 0 {
		r.Priority, r.Fixed = w.Priorities[random.IntN(len(w.Priorities))], true
	}
	if len(w.Deadlines) > 0 {
		r.Within = w.Deadlines[random.IntN(len(w.Deadlines))]
	}
	return r
}
