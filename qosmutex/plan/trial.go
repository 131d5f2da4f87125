package plan

import (
	"context"
	"math/rand/v2"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Setup is what a run of a contender needs.
type Setup struct {
	Algorithm protocol.Algorithm // the contender's, or one that repairs its network
	Scenario  sim.Scenario
	Prepare   func(*sim.Sim, *sim.Scenario) // if set: what shall happen in the run, by Sim.At
}

// trial is a way to run a contender.
type trial struct {
	seed  uint64
	load  float64 // how often all ask, of what the scenario says
	crash string  // "", or who dies in it: holder, root
}

// chunk is how many events are run before the context is looked at.
const chunk = 10_000

// run simulates a contender once.
func (p *Problem) run(ctx context.Context, c *Contender, t trial) (Figures, error) {
	setup, err := p.Setup(*c, t.seed)
	if err != nil {
		return nil, err
	}
	sc := &setup.Scenario
	adjust(sc, t.load)
	at := drillTime(sc, t.seed)
	if t.crash != "" {
		sc.Duration = at - sc.Start + drillLasts*sc.Timing.TTL
	}
	s, err := sim.New(setup.Algorithm, *sc)
	if err != nil {
		return nil, err
	}
	if setup.Prepare != nil {
		setup.Prepare(s, sc)
	}
	d := drill{run: s, scenario: sc, who: t.crash}
	if t.crash != "" {
		s.At(at, d.strike)
	}
	end := sc.Start + sc.Duration
	for done := false; !done && err == nil; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		done, err = s.RunSome(end, chunk)
	}
	if err != nil {
		return nil, err
	}
	if t.crash != "" {
		return d.figures(), nil
	}
	report := s.Result().Report()
	return figuresOf(&report), nil
}

// adjust has everybody ask load times as often, as far as that is up to them, and not all at
// once at the start.
func adjust(sc *sim.Scenario, load float64) {
	scale := func(w sim.Workload) sim.Workload {
		w.Think, w.Every, w.Settled = w.Think.Scale(1/load), w.Every.Scale(1/load), true
		return w
	}
	sc.Workload = scale(sc.Workload)
	sc.Participants = slices.Clone(sc.Participants)
	for i := range sc.Participants {
		if p := &sc.Participants[i]; p.Workload != nil {
			w := scale(*p.Workload)
			p.Workload = &w
		}
	}
	sc.Arrivals = slices.Clone(sc.Arrivals)
	for i := range sc.Arrivals {
		sc.Arrivals[i].At = protocol.Time(float64(sc.Arrivals[i].At) / load)
	}
}

// A drill kills the holder or the root at some time and measures for how long the resource is
// not granted though somebody waits. Another participant asks at that moment, so somebody does.
type drill struct {
	run      *sim.Sim
	scenario *sim.Scenario
	who      string
	struck   bool
}

// drillLasts is for how long a drill goes on, in times-to-live.
const drillLasts = 6

// drillTime is when somebody dies, the same for all contenders with that seed.
func drillTime(sc *sim.Scenario, seed uint64) protocol.Time {
	chance := rand.New(rand.NewPCG(seed, 0x6472696c6c))
	return sc.Start + protocol.Time((0.1+0.4*chance.Float64())*float64(sc.Duration))
}

// strike kills whom the drill is about, as soon as there is one.
func (d *drill) strike() {
	victim, heir := -1, -1
	all := d.scenario.Participants
	for i := range all {
		switch s := d.run.Status(all[i].ID); {
		case victim < 0 && d.is(&s):
			victim = i
		case heir < 0 && s.Role == protocol.Member:
			heir = i
		}
	}
	if victim < 0 || heir < 0 {
		d.run.At(d.run.Now()+protocol.Millisecond, d.strike)
		return
	}
	d.struck = true
	d.run.Crash(all[victim].ID)
	d.run.ResetGaps()
	d.run.Request(all[heir].ID, sim.Request{Resource: d.scenario.Settings.Resources[0]})
}

// is reports whether a participant is the one to die. A root that holds would be both.
func (d *drill) is(s *protocol.Status) bool {
	if d.who == "root" {
		return s.Role == protocol.Root
	}
	return s.Role == protocol.Member && slices.ContainsFunc(s.Resources, func(r protocol.ResourceStatus) bool { return r.Inside })
}

// figures are how long it took; none if nobody could be killed.
func (d *drill) figures() Figures {
	if !d.struck {
		return Figures{}
	}
	return Figures{"recovery." + d.who: float64(d.run.LongestGap().For) / float64(protocol.Second)}
}
