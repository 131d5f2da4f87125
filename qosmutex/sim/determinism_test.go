package sim

import (
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// variety is one scenario for each thing that draws from the seed.
func variety() map[string]Scenario {
	all := map[string]Scenario{}
	add := func(name string, change func(*Scenario)) {
		sc := star(9)
		sc.Workload.Resources = []string{"crane", "lift", "tug"}
		sc.Workload.Hold, sc.Workload.Think = Uniform(second, 2*second), Exponential(second)
		change(&sc)
		all[name] = sc
	}
	for name, order := range map[string]Order{"application": ApplicationFirst, "messages": MessagesFirst, "shuffled": Shuffled} {
		add(name, func(sc *Scenario) {
			sc.Order = order
			sc.Network = Network{Latency: Uniform(second/2, 3*second/2), Reorder: true, Loss: 0.01, Duplicate: 0.01}
		})
	}
	add("fast", func(sc *Scenario) { sc.Fast, sc.Network.Latency = true, LogNormal(second, second) })
	add("open", func(sc *Scenario) {
		sc.Workload.Think, sc.Workload.Every = Distribution{}, Exponential(20*second)
		sc.Workload.Priorities = []int64{1, 2, 3}
	})
	add("deadlines", func(sc *Scenario) {
		sc.Workload.Deadlines, sc.Workload.GiveUp = []protocol.Duration{2 * second, 9 * second}, true
		sc.Network.Latency = Normal(second, second)
	})
	return all
}

func TestSameSeedSameRun(t *testing.T) {
	for name, sc := range variety() {
		one, two := traceOf(t, sc), traceOf(t, sc)
		if one != two {
			t.Errorf("%s: two runs differ", name)
		}
		sc.Seed++
		if traceOf(t, sc) == one {
			t.Errorf("%s: the seed changes nothing", name)
		}
	}
}

// Whether messages are copied or encoded, the same happens. tests/algorithms compares runs of all
// algorithms, but leaves the tree to PADME; here parents are named.
func TestFastRunsWithNamedParentsAreTheSameRuns(t *testing.T) {
	for _, m := range append(protocol.AllModels(), protocol.Models{Release: protocol.Retain}, protocol.Models{Release: protocol.Direct}) {
		var results [2]string
		for i := range results {
			sc := PaperScenario(m, second)
			sc.Fast = i == 1
			s, err := New(padme.Algorithm, sc)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			results[i] = r.String()
		}
		if results[0] != results[1] {
			t.Errorf("%v:\n%s\nfast:\n%s", m, results[0], results[1])
		}
	}
}
