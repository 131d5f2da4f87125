package classic

import (
	"errors"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

func TestAlgorithmsSayWhatTheyAre(t *testing.T) {
	var names []string
	for _, a := range All() {
		for _, word := range []string{a.Name, a.Source, a.Messages, a.Delay, a.Assumes, a.Crash} {
			if word == "" {
				t.Errorf("%s: something is not said: %+v", a.Name, a)
			}
		}
		if !a.Static || slices.Contains(names, a.Name) {
			t.Errorf("%s: is not static, or named twice", a.Name)
		}
		names = append(names, a.Name)
	}
	want := []string{
		"central", "central-fifo", "token-ring", "lamport", "ricart-agrawala", "maekawa", "voting", "suzuki-kasami",
		"naimi-trehel", "maekawa-naive", "voting-forgetful",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the algorithms are %v, want %v", names, want)
	}
}

func TestInvalidConfigurations(t *testing.T) {
	valid := protocol.Config{Self: protocol.Node{ID: "A"}, Members: letters(3), Timing: protocol.LAN()}
	for _, a := range All() {
		if _, err := a.New(valid); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		stranger := valid
		stranger.Self.ID = "X"
		if m, err := a.New(stranger); m != nil || !errors.Is(err, protocol.ErrInvalidConfig) {
			t.Errorf("%s: a stranger gets %v, %v", a.Name, m, err)
		}
	}
	for _, mean := range []protocol.Duration{0, -1} {
		if m, err := Forgetful(mean).New(valid); m != nil || !errors.Is(err, protocol.ErrInvalidConfig) {
			t.Errorf("a mean of %d gives %v, %v", mean, m, err)
		}
	}
}

// The same seed and the same inputs give the same run; with another seed, chances
// fall differently.
func TestMachinesAreDeterministic(t *testing.T) {
	run := func(a protocol.Algorithm, seed uint64) []string {
		w := newWorld(a, letters(5), seed)
		w.tracing, w.overlap = true, true
		w.jumble(7, 3*tm)
		for range 4 {
			for i := range w.nodes {
				w.ask(i)
			}
			w.pass(50 * tm)
			for len(w.inside) > 0 {
				w.leave(w.inside[0])
			}
		}
		return w.trace
	}
	for _, a := range All() {
		if !slices.Equal(run(a, 1), run(a, 1)) {
			t.Errorf("%s: two runs differ", a.Name)
		}
		if chance := a.Name == Voting.Name || a.Name == VotingForgetful.Name; slices.Equal(run(a, 1), run(a, 2)) == chance {
			t.Errorf("%s: runs of different seeds: equal is not %v", a.Name, !chance)
		}
	}
}
