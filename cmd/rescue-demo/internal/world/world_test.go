package world_test

import (
	"encoding/json"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/world"
)

func TestPausedRobotStandsStillAndGoesOnFromThere(t *testing.T) {
	cfg := scenario.Default()
	free, held := world.New(cfg), world.New(cfg)
	held.Apply(world.Change{At: 2 * time.Second, Kind: world.Pause, Robot: 3})
	held.Apply(world.Change{At: 2500 * time.Millisecond, Kind: world.Pause, Robot: 3}) // it is paused already
	if held.Place(3, 9*time.Second) != free.Place(3, 2*time.Second) || !held.Paused(3) || held.Paused(2) {
		t.Error("it does not stand still")
	}
	held.Apply(world.Change{At: 5 * time.Second, Kind: world.Resume, Robot: 3})
	for _, test := range []struct{ at, walked time.Duration }{{1, 1}, {3, 2}, {5, 2}, {6, 3}, {20, 17}} {
		if got, want := held.Place(3, test.at*time.Second), free.Place(3, test.walked*time.Second); got != want {
			t.Errorf("after %v s it is at %v, want %v", int(test.at), got, want)
		}
	}
	if held.Place(2, 9*time.Second) != free.Place(2, 9*time.Second) || held.Paused(3) {
		t.Error("the wrong robot was paused, or it was not resumed")
	}
}

func TestDroppedSurvivorIsSeenFromThenOn(t *testing.T) {
	w := world.New(scenario.Default())
	before := w.Area()
	here := w.Place(1, 4*time.Second)
	n := w.Sees(1, 4*time.Second)
	w.Apply(world.Change{At: 4 * time.Second, Kind: world.Drop, Place: here})
	if got := w.Sees(1, 4*time.Second); got != n+1 {
		t.Errorf("it sees %d, want %d", got, n+1)
	}
	if got := w.Sees(1, 4*time.Second-1); got != n {
		t.Errorf("it saw %d before, want %d", got, n)
	}
	if len(before.Survivors) != 30 || len(w.Area().Survivors) != 31 {
		t.Errorf("%d survivors before, %d after", len(before.Survivors), len(w.Area().Survivors))
	}
}

func TestRadioFailsAndIsMended(t *testing.T) {
	w := world.New(scenario.Default())
	w.Apply(world.Change{Kind: world.Cut, Robot: 8})
	if !w.Failed(8) || w.Failed(7) {
		t.Error("not cut, or the wrong one")
	}
	w.Apply(world.Change{Kind: world.Mend, Robot: 8})
	if w.Failed(8) {
		t.Error("not mended")
	}
}

func TestRobotsThatAreNotThereAreLeftAlone(t *testing.T) {
	w := world.New(scenario.Default())
	for _, number := range []int{-1, 0, 9} {
		w.Apply(world.Change{Kind: world.Cut, Robot: number})
	}
	if n := len(w.Changes()); n != 0 {
		t.Errorf("%d changes", n)
	}
}

// Another process that is told of the changes sees the same world.
func TestChangesCrossProcesses(t *testing.T) {
	w := world.New(scenario.Default())
	for _, c := range []world.Change{
		{At: time.Second, Kind: world.Pause, Robot: 1},
		{At: 2 * time.Second, Kind: world.Cut, Robot: 2},
		{At: 3 * time.Second, Kind: world.Drop, Place: area.Point{X: 7, Y: 8}},
		{At: 4 * time.Second, Kind: world.Resume, Robot: 1},
	} {
		w.Apply(c)
	}
	text, err := json.Marshal(w.Changes())
	if err != nil {
		t.Fatal(err)
	}
	var changes []world.Change
	if err := json.Unmarshal(text, &changes); err != nil {
		t.Fatal(err)
	}
	same := world.New(scenario.Default(), changes...)
	if same.Place(1, 9*time.Second) != w.Place(1, 9*time.Second) || !same.Failed(2) || len(same.Area().Survivors) != 31 {
		t.Error("it is another world")
	}
}
