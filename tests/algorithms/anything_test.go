package algorithms_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/static"
)

const ms = protocol.Millisecond

// anything is a scenario drawn from a seed, with everything in it that a scenario
// can have, and the faults that go with it.
type anything struct {
	rng       *rand.Rand
	algorithm protocol.Algorithm
	scenario  sim.Scenario
	known     protocol.Duration // see sim.Inversions
	faults    int
	sim       *sim.Sim
	gone      map[string]string // why a participant cannot act
	refs      []uint64
}

func drawAnything(algorithm protocol.Algorithm, seed uint64) *anything {
	a := &anything{rng: rand.New(rand.NewPCG(seed, 7)), algorithm: algorithm, gone: map[string]string{}}
	n := 2 + a.rng.IntN(7)
	pick := a.rng.IntN
	sc := &a.scenario
	*sc = sim.Scenario{
		Seed: seed, Participants: sim.Tree(n, 2, algorithm.Name == padme.Algorithm.Name && pick(2) == 0), Timing: protocol.LAN(), Fanout: 2,
		Settings: protocol.Settings{Resources: []string{"a", "b", "c"}[:1+pick(3)], Models: a.models()},
		Order:    sim.Order(pick(3)), Fast: pick(2) == 0,
		Start: 10 * protocol.Second, Duration: 12 * protocol.Second,
	}
	if algorithm.Name == padme.Algorithm.Name {
		keepRecord(sc)
	}
	a.drawNetwork()
	a.drawWorkload()
	if pick(3) > 0 {
		a.faults = 1 + pick(8)
	}
	if algorithm.Static && a.faults+int(1e6*sc.Network.Loss) > 0 {
		a.algorithm = static.OverLossyChannels(algorithm)
	}
	// A static algorithm forgets in a crash whom it has let in; see sim.Result.Overlaps.
	sc.AllowOverlap = algorithm.Static && a.faults > 0 || algorithm.Name == "voting-forgetful"
	for i := range sc.Participants {
		if pick(3) == 0 {
			sc.Participants[i].ClockOffset = protocol.Time(pick(100)) * protocol.Second
			sc.Participants[i].ClockDrift = int64(pick(8000) - 4000)
		}
	}
	return a
}

// keepRecord gives the topic a record in a register, so that its root can end and come
// back, and any other one be the root meanwhile.
func keepRecord(sc *sim.Scenario) {
	sc.NewCandidate = func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
		return candidate.New(candidate.Config{Protocol: p, Lease: l})
	}
	for i := range sc.Participants {
		p := &sc.Participants[i]
		p.Root, p.Candidate, p.Creates = false, true, p.Root
	}
}

// wrap has every machine of the run driven through what around makes of it.
func (a *anything) wrap(around func(protocol.Machine) protocol.Machine) {
	create, createCandidate := a.algorithm.New, a.scenario.NewCandidate
	a.algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
		m, err := create(c)
		return around(m), err
	}
	if createCandidate == nil {
		return
	}
	a.scenario.NewCandidate = func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
		c, err := createCandidate(p, l)
		return wrapped{c, around(c)}, err
	}
}

// wrapped is a candidate whose inputs go through what is around it. The register's
// answers do not: nothing that a participant asked for is decided in them.
type wrapped struct {
	sim.Candidate
	around protocol.Machine
}

func (w wrapped) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	return w.around.Step(now, in, out)
}

// ValidUntil and CheckInvariants are those of the machine.
func (w wrapped) ValidUntil() protocol.Time {
	return w.Candidate.(interface{ ValidUntil() protocol.Time }).ValidUntil()
}

func (w wrapped) CheckInvariants() error {
	return w.Candidate.(interface{ CheckInvariants() error }).CheckInvariants()
}

func (a *anything) models() protocol.Models {
	n := a.rng.IntN(64)
	m := protocol.AllModels()[n%16]
	switch n / 16 {
	case 0:
		m.Release = protocol.Retain
	case 1:
		m.Release = protocol.Direct
	}
	if a.rng.IntN(3) == 0 {
		m.Priority = []protocol.Priority{protocol.Aging, protocol.Deadline}[a.rng.IntN(2)]
	}
	return m
}

// drawNetwork draws the network, and works out by hand for how long an inversion
// may be unknown: twice the height of the tree times the greatest latency.
func (a *anything) drawNetwork() {
	net, n := &a.scenario.Network, len(a.scenario.Participants)
	height := protocol.Duration(math.Log2(float64(n))) // of a complete binary tree
	most := protocol.Duration(1+a.rng.IntN(19)) * ms
	switch a.rng.IntN(5) {
	case 0:
		net.Latency = sim.Constant(most)
	case 1:
		net.Latency = sim.Uniform(most/3, most)
	case 2:
		net.Latency = sim.Exponential(most)
		most = protocol.Duration(math.Round(math.Log(1000) * float64(most)))
	case 3:
		m := sim.Matrix{Scale: 1.5}
		greatest := protocol.Duration(0)
		for i := range n {
			m.Each = append(m.Each, make([]protocol.Duration, n))
			for j := range n {
				m.Each[i][j] = protocol.Duration(a.rng.Int64N(int64(most)))
				if i != j {
					greatest = max(greatest, protocol.Duration(math.Round(1.5*float64(m.Each[i][j]))))
				}
			}
		}
		net.Latency, most = m, greatest
	case 4:
		most = 0
	}
	a.known = 2 * height * most
	if a.rng.IntN(3) == 0 {
		net.Loss, net.Duplicate, net.Reorder = 0.03, 0.03, a.rng.IntN(2) == 0
	}
}

func (a *anything) drawWorkload() {
	pick, w := a.rng.IntN, &a.scenario.Workload
	*w = sim.Workload{Resources: a.scenario.Settings.Resources, Hold: sim.Uniform(ms, []protocol.Duration{40, 400}[pick(2)]*ms)}
	if a.algorithm.Name == padme.Algorithm.Name && pick(3) == 0 {
		w.Resources = append([]string{protocol.Any}, w.Resources...)
	}
	if pick(3) == 0 {
		w.Every = sim.Exponential(protocol.Duration(100+pick(900)) * ms)
	} else {
		w.Think = sim.Exponential(protocol.Duration(20+pick(900)) * ms)
	}
	if pick(2) == 0 {
		w.Priorities = []int64{3, 1, 4, 1, 5}
	}
	if pick(2) == 0 {
		w.Deadlines, w.GiveUp = []protocol.Duration{30 * ms, 90 * ms, 300 * ms, 2000 * ms}, pick(2) == 0
	}
	if pick(3) == 0 {
		a.scenario.Participants[pick(len(a.scenario.Participants))].Workload = &sim.Workload{}
	}
	for range pick(20) {
		r := sim.Request{Resource: "a", Hold: protocol.Duration(pick(50)) * ms, Priority: int64(pick(6)), Fixed: pick(2) == 0, Try: pick(4) == 0}
		if pick(3) == 0 {
			r.Within = protocol.Duration(1+pick(200)) * ms
		}
		a.scenario.Arrivals = append(a.scenario.Arrivals, sim.Arrival{At: protocol.Time(pick(13_000)) * ms, Node: a.anybody(), Request: r})
	}
}

func (a *anything) anybody() string {
	return a.scenario.Participants[a.rng.IntN(len(a.scenario.Participants))].ID
}

// prepare makes the run and plans what happens in it.
func (a *anything) prepare(algorithm protocol.Algorithm) error {
	s, err := sim.New(algorithm, a.scenario)
	if err != nil {
		return fmt.Errorf("seed %d: %w", a.scenario.Seed, err)
	}
	a.sim = s
	s.At(a.scenario.Start+a.scenario.Duration, func() { // is not measured any more
		if id := a.anybody(); a.gone[id] == "" {
			s.Request(id, sim.Request{Resource: "a", Hold: ms})
		}
	})
	for range a.faults {
		at := a.scenario.Start - 2*protocol.Second + protocol.Time(a.rng.IntN(13_000))*ms
		s.At(at, a.act)
	}
	return nil
}

// act does something that may be done now.
func (a *anything) act() {
	s, id, pick := a.sim, a.anybody(), a.rng.IntN
	what := pick(12)
	switch a.gone[id] {
	case "crashed":
		s.Restart(id)
		a.gone[id] = ""
		return
	case "paused":
		s.Resume(id)
		a.gone[id] = ""
		return
	}
	later := s.Now() + protocol.Time(1+pick(6000))*ms
	switch what {
	case 0:
		s.Crash(id)
		a.gone[id] = "crashed"
		s.At(later, func() {
			if a.gone[id] == "crashed" {
				s.Restart(id)
				a.gone[id] = ""
			}
		})
	case 1:
		s.Pause(id)
		a.gone[id] = "paused"
		s.At(later, func() {
			if a.gone[id] == "paused" {
				s.Resume(id)
				a.gone[id] = ""
			}
		})
	case 2:
		s.Cut(id)
		s.At(later, func() {
			if a.gone[id] == "" {
				s.Reconnect(id)
			}
		})
	case 3:
		s.Partition([]string{id})
		s.At(later, s.Heal)
	case 4:
		s.Sever([]string{id}, []string{a.anybody()})
		s.At(later, s.Heal)
	case 5:
		s.Depart(id)
	case 6, 7:
		s.SetPriority(id, int64(pick(9))-2)
	case 8, 9:
		a.refs = append(a.refs, s.Request(id, sim.Request{Resource: "a", Hold: 30 * ms, Within: 100 * ms, Priority: 2, Fixed: pick(2) == 0}))
		s.At(s.Now()+protocol.Time(pick(150))*ms, a.withdraw)
	case 10:
		s.SetModels(id, a.models())
	case 11:
		s.At(s.Now()+20*ms, a.crashOverdue)
		s.Request(id, sim.Request{Resource: "a", Hold: 30 * ms, Within: ms})
	}
}

// withdraw withdraws the last request made by hand.
func (a *anything) withdraw() {
	if ref := a.refs[len(a.refs)-1]; ref != 0 {
		for _, p := range a.scenario.Participants {
			if a.gone[p.ID] == "paused" {
				return // it may be theirs
			}
		}
		a.sim.Withdraw(ref)
	}
}

// crashOverdue crashes somebody, whose request may be late by now.
func (a *anything) crashOverdue() {
	if id := a.anybody(); a.gone[id] == "" {
		a.sim.Crash(id)
		a.gone[id] = "crashed"
	}
}
