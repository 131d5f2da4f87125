package sim

import (
	"bytes"
	"errors"
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

// paper runs PADME under faults and returns all that can be seen of it.
func paper(t *testing.T, seed uint64) string {
	t.Helper()
	sc := PaperScenario(protocol.Models{Priority: protocol.Fair, Reply: protocol.Use}, second/10)
	sc.Seed, sc.Order = seed, Shuffled
	sc.Network = Network{Latency: LogNormal(second/10, second/20), Loss: 0.01, Duplicate: 0.01}
	var b bytes.Buffer
	sc.Trace = TraceTo(&b, nil)
	s, err := New(padme.Algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	s.At(100*second, func() { s.Crash("D") })
	s.At(120*second, func() { s.Restart("D") })
	s.At(150*second, func() { s.Partition([]string{"B", "E"}) })
	s.At(160*second, func() { s.Heal() })
	r, err := s.Run()
	if err != nil && !errors.Is(err, ErrViolation) {
		t.Fatal(err)
	}
	return b.String() + r.String()
}

func TestSameSeedSameRunOfPADME(t *testing.T) {
	one := paper(t, 1)
	if paper(t, 1) != one {
		t.Error("two runs differ")
	}
	if paper(t, 2) == one {
		t.Error("the seed changes nothing")
	}
}

// Copied or encoded, with or without checks: the same happens.
func TestFastRunsAreTheSameRuns(t *testing.T) {
	for name, sc := range variety() {
		sc.Fast = false
		checked := traceOf(t, sc)
		sc.Fast = true
		if traceOf(t, sc) != checked {
			t.Errorf("%s: a fast run differs", name)
		}
	}
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

// A fast run notices two inside and a fence that does not rise all the same.
func TestFastRunsCheckThePromises(t *testing.T) {
	for _, fault := range []string{"two inside", "fence stays"} {
		sc := star(4)
		sc.Fast = true
		_, err := mustNew(t, fault, sc).Run()
		var v *Violation
		if !errors.As(err, &v) || len(v.History) != 0 {
			t.Errorf("%s: got %v", fault, err)
		}
	}
}
