package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

const (
	// leastTime is how much simulated time a seed takes at least, and leastFaults how
	// many faults it has.
	leastTime   = 600 * protocol.Second
	leastFaults = 5
)

// outcome is what a seed did.
type outcome struct {
	faults   map[string]int
	counters protocol.Counters // of all incarnations together
	time     protocol.Duration // simulated
	events   uint64            // of the simulator
	rounds   int
	share    float64 // of the bound that the slowest heal took
	slowest  protocol.Duration
	entries  int

	world        string
	traits       []string
	visits       int // of visitors
	slowGoodbyes int // of visitors that were not let go in time
	deaths       int // of visitors that were killed on their way
	kills        int // in a world without other faults
	gap          gaps
	denied       uint64
	met, missed  int    // deadlines
	overlaps     uint64 // entries beside another, where roots may not hear of each other
	goneOn       uint64 // holds that went on in another process
}

// run is one seed: rounds of faults, each followed by a heal after which everybody
// must be served.
type run struct {
	options
	rng     *rand.Rand
	sim     *sim.Sim
	members []*member
	net     network
	healing []*active
	kinds   []*fault // that its world has
	doors   int      // rises when visitors begin to come, and when they stop
	outcome outcome
}

// active is a fault that has not been healed.
type active struct {
	name string
	heal func()
}

// simulate runs one seed. Whatever happens goes to trace, if that is there, but how
// it happens does not depend on it.
func simulate(seed uint64, w *world, trace func(*sim.Record)) (*outcome, error) {
	return newRun(draw(seed, w), trace).all()
}

func newRun(o options, trace func(*sim.Record)) *run {
	r := &run{options: o, rng: rand.New(rand.NewPCG(o.seed, 2))}
	r.outcome.faults = map[string]int{}
	r.outcome.world = o.world.name
	for trait, on := range o.traits() {
		if on {
			r.outcome.traits = append(r.outcome.traits, trait)
		}
	}
	r.kinds = o.world.faults(o.unheard)
	sc := o.scenario(r.rng)
	sc.Trace = trace
	for i := range sc.Participants {
		p := &sc.Participants[i]
		r.members = append(r.members, &member{id: p.ID, able: p.Candidate, register: p.Register, first: i == 0, joins: p.Joins, up: !p.Absent, visitor: p.Absent})
	}
	s, err := sim.New(o.algorithm(), sc)
	if err != nil {
		panic(err) // whatever a seed draws is a scenario
	}
	r.sim = s
	return r
}

func (r *run) all() (*outcome, error) {
	if err := r.until(r.settled()); err != nil {
		return &r.outcome, err
	}
	r.visits()
	play := r.world.play
	if play == nil {
		play = (*run).rounds
	}
	if err := play(r); err != nil {
		return &r.outcome, err
	}
	for _, m := range r.members {
		if m.up {
			r.collect(m)
		}
	}
	r.outcome.time, r.outcome.events = r.sim.Now(), r.sim.Events()
	result := r.sim.Result()
	r.outcome.overlaps, r.outcome.goneOn = result.Overlaps, result.GoneOn
	r.outcome.entries, r.outcome.denied = result.Entries, result.Denied
	r.outcome.met, r.outcome.missed = result.Deadlines.Met, result.Deadlines.Missed()
	return &r.outcome, nil
}

// rounds goes on for as long as a seed lasts, and until it has had some faults.
func (r *run) rounds() error {
	end := max(leastTime, r.settled())
	if r.rest > 0 {
		end = r.settled() + r.rest
	}
	for r.sim.Now() < end || r.faults() < leastFaults {
		if err := r.round(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) until(t protocol.Time) error {
	if err := r.sim.RunUntil(t); err != nil {
		return fmt.Errorf("%v: %w", &r.options, err)
	}
	return nil
}

func (r *run) faults() int {
	n := 0
	for _, k := range r.outcome.faults {
		n += k
	}
	return n
}

// round lets faults come for a while, each for a time of its own, waits until the
// last is over, and demands service.
func (r *run) round() error {
	from := r.sim.Now()
	length := r.between(5*protocol.Second, 60*protocol.Second)
	for range 1 + r.rng.IntN(8) {
		r.sim.At(from+r.between(0, length), r.inject)
	}
	if err := r.until(from + length); err != nil {
		return err
	}
	for len(r.healing) > 0 {
		if err := r.until(r.sim.Now() + r.preset.timing.TTL/8); err != nil {
			return err
		}
	}
	r.outcome.rounds++
	return r.demandService()
}

// inject lets one fault happen that can happen now.
func (r *run) inject() {
	for range 20 { // most can
		f := r.kinds[r.rng.IntN(len(r.kinds))]
		if f.moving && !r.handovers {
			continue
		}
		heal, ok := f.apply(r)
		if !ok {
			continue
		}
		r.outcome.faults[f.name]++
		if heal != nil {
			a := &active{f.name, heal}
			r.healing = append(r.healing, a)
			r.sim.At(r.sim.Now()+f.lasts.draw(r), func() { r.heal(a) })
		}
		return
	}
}

func (r *run) heal(a *active) {
	r.healing = slices.DeleteFunc(r.healing, func(o *active) bool { return o == a })
	a.heal()
}

// demandService ends the load, lets everybody make a request more, and waits until
// nobody waits and every token is at home.
func (r *run) demandService() error {
	r.load(false)
	for _, m := range r.residents(r.free()) {
		r.sim.Request(m.id, sim.Request{Resource: r.demanded()[r.rng.IntN(len(r.demanded()))], Hold: r.preset.hold})
	}
	healed := r.sim.Now()
	bound := r.bound(len(r.sim.Waiting()))
	for {
		why := r.unrest()
		took := r.sim.Now() - healed
		if why == "" {
			break
		}
		if took > bound {
			return fmt.Errorf("%v: healed at %.3f s, and after the bound of %.3f s %s;%s",
				&r.options, inSeconds(healed), inSeconds(bound), why, r.standing())
		}
		if err := r.until(r.sim.Now() + r.preset.timing.TTL/16); err != nil {
			return err
		}
	}
	took := r.sim.Now() - healed
	r.outcome.slowest = max(r.outcome.slowest, took)
	r.outcome.share = max(r.outcome.share, float64(took)/float64(bound))
	r.load(true)
	return nil
}

// load lets members ask and visitors come, or no longer.
func (r *run) load(on bool) {
	of := func(string) sim.Workload { return sim.Workload{} }
	if on {
		of = r.workloadOf
	}
	if r.spread {
		for _, m := range r.residents(slices.Clone(r.members)) {
			r.sim.SetWorkloadOf(m.id, of(m.id))
		}
	} else {
		r.sim.SetWorkload(of(""))
	}
	if r.doors++; on {
		r.visits()
	}
}

// unrest says what is not as it should be while nobody asks; "" if nothing.
func (r *run) unrest() string {
	for _, w := range r.sim.Waiting() {
		return fmt.Sprintf("%s waits for %s since %.3f s", w.Node, w.Resource, inSeconds(w.Since))
	}
	roots := 0
	for _, m := range r.members {
		s := r.sim.Status(m.id)
		if m.gone() || m.joins > r.sim.Now() {
			continue
		}
		if s.Role == protocol.Root {
			roots++
		}
		for _, t := range s.Resources {
			switch {
			case t.Waiting > 0:
				return fmt.Sprintf("%s believes that somebody waits for %s", m.id, t.Resource)
			case s.Role == protocol.Root && !t.Free && !t.Retained:
				return fmt.Sprintf("the token of %s is neither at home nor retained", t.Resource)
			}
		}
	}
	if roots != 1 {
		return fmt.Sprintf("there are %d roots", roots)
	}
	return ""
}

// standing says where everybody stands.
func (r *run) standing() string {
	var b strings.Builder
	for _, m := range r.members {
		switch s := r.sim.Status(m.id); {
		case m.gone() && m.visitor:
		case m.gone():
			fmt.Fprintf(&b, " %s is gone", m.id)
		case s.Role == protocol.Member:
			fmt.Fprintf(&b, " %s is below %s", m.id, s.Parent.ID)
		default:
			fmt.Fprintf(&b, " %s is %v", m.id, s.Role)
		}
	}
	return b.String()
}

func (r *run) between(a, b protocol.Duration) protocol.Duration {
	return a + protocol.Duration(r.rng.Int64N(int64(b-a)+1))
}

func inSeconds(d protocol.Duration) float64 { return float64(d) / float64(protocol.Second) }

// collect adds the counters of an incarnation that ends.
func (r *run) collect(m *member) {
	s := r.sim.Status(m.id)
	r.outcome.add(&s.Counters)
}

// add sums up what is out of the ordinary.
func (o *outcome) add(c *protocol.Counters) {
	sum := &o.counters
	sum.Losses += c.Losses
	sum.Resent += c.Resent
	sum.Expiries += c.Expiries
	sum.ExpiriesIn += c.ExpiriesIn
	sum.Syncs += c.Syncs
	sum.Regenerated += c.Regenerated
	sum.Returned += c.Returned
	sum.Retained += c.Retained
	sum.Recalls += c.Recalls
	sum.Sent[protocol.KindSchedule] += c.Sent[protocol.KindSchedule]
	sum.OffPath += c.OffPath
	sum.Moves += c.Moves
	sum.Terms += c.Terms
	sum.Adopted += c.Adopted
}
