package plan

import (
	"strconv"
	"strings"
	"testing"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

const ms = protocol.Millisecond

// world is a workload of a test: n participants over messages of 10 ms.
type world struct {
	n          int
	think      sim.Distribution
	hold       sim.Distribution
	priorities []int64 // of each participant; fewer: the last goes on
	deadlines  []protocol.Duration
	alone      bool // only the last participant asks
	elect      bool // all can be the root, and find their places themselves
	duration   protocol.Duration
}

func (w *world) setup(c Contender, seed uint64) (Setup, error) {
	const latency = 10 * ms
	fanout := max(1, c.Fanout)
	sc := sim.Scenario{
		Seed: seed, Fast: true, Fanout: max(fanout, 8), Duration: max(w.duration, 10*protocol.Second), Start: 8 * protocol.Second,
		Settings: protocol.Settings{Models: c.Models, Resources: []string{"crane"}},
		Network:  sim.Network{Latency: sim.Constant(latency)},
		Register: sim.Register{Latency: sim.Constant(latency)},
		Workload: sim.Workload{Resources: []string{"crane"}, Hold: w.hold, Think: w.think, Deadlines: w.deadlines},
		NewCandidate: func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
			return candidate.New(candidate.Config{Protocol: p, Lease: l, Announce: p.Timing.TTL})
		},
	}
	sc.Timing = protocol.LAN()
	if c.TTL > 0 {
		sc.Timing = sc.Timing.WithTTL(c.TTL)
	}
	sc.Participants = sim.Tree(w.n, fanout, false)
	for i := range sc.Participants {
		p := &sc.Participants[i]
		p.Joins = protocol.Time(i) * 10 * ms * 8
		p.Priority = 0
		if len(w.priorities) > 0 {
			p.Priority = w.priorities[min(i, len(w.priorities)-1)]
		}
		if w.alone && i < w.n-1 {
			p.Workload = &sim.Workload{}
		}
		if w.elect && !c.Algorithm.Static {
			sc.Fanout = fanout
			p.Root, p.Parent, p.Candidate, p.Creates = false, "", true, i == 0
		}
	}
	return Setup{Algorithm: c.Algorithm, Scenario: sc}, nil
}

// contendersOf reads names such as "padme:LFFF/8 central".
func contendersOf(t *testing.T, names string) (all []Contender) {
	t.Helper()
	for name := range strings.FieldsSeq(names) {
		name, fanout, _ := strings.Cut(name, "/")
		name, models, _ := strings.Cut(name, ":")
		a, err := papers.AlgorithmNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		c := Contender{Algorithm: a}
		if HasTree(a) {
			c.Fanout = 2
		}
		if models != "" {
			if c.Models, err = protocol.ParseModels(models); err != nil {
				t.Fatal(err)
			}
		}
		if fanout != "" {
			if c.Fanout, err = strconv.Atoi(fanout); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, c)
	}
	return all
}

// requirementsOf reads texts separated by semicolons.
func requirementsOf(t *testing.T, texts string) (all []Requirement) {
	t.Helper()
	for text := range strings.SplitSeq(texts, ";") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		some, err := ParseRequirements(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

func goalsOf(t *testing.T, names string) (all []Goal) {
	t.Helper()
	for name := range strings.FieldsSeq(names) {
		g, err := ParseGoal(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	return all
}
