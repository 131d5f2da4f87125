package area_test

import (
	"math"
	"reflect"
	"testing"

	"padme/cmd/rescue-demo/internal/area"

	"pgregory.net/rapid"
)

func point(t *rapid.T, name string) area.Point {
	return area.Point{X: rapid.Float64Range(-100, 100).Draw(t, name+".x"), Y: rapid.Float64Range(-100, 100).Draw(t, name+".y")}
}

func rect(t *rapid.T) area.Rect {
	p, q := point(t, "p"), point(t, "q")
	return area.Rect{
		Min: area.Point{X: min(p.X, q.X), Y: min(p.Y, q.Y)},
		Max: area.Point{X: max(p.X, q.X), Y: max(p.Y, q.Y)},
	}
}

func TestBlocksFollowsSampledLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, p, q := rect(t), point(t, "from"), point(t, "to")
		// A sampled point inside proves the line blocked; a blocked line has a
		// sampled point within one step of the rectangle. Both up to rounding.
		const steps, rounding = 2000, 1e-9
		step := p.Distance(q) / steps
		inside, close := false, false
		for i := range steps + 1 {
			s := p.Toward(q, float64(i)/steps)
			inside = inside || r.Contains(s)
			close = close || r.Grow(step+rounding).Contains(s)
		}
		got := r.Blocks(p, q)
		if inside && !r.Grow(rounding).Blocks(p, q) {
			t.Fatalf("%v crosses %v-%v unnoticed", r, p, q)
		}
		if got && !close {
			t.Fatalf("%v does not touch %v-%v", r, p, q)
		}
		if got && !r.Grow(rounding).Blocks(q, p) {
			t.Fatal("blocking depends on the direction")
		}
	})
}

func TestBlocksByExample(t *testing.T) {
	wall := area.Rect{Min: area.Point{X: 10, Y: 10}, Max: area.Point{X: 20, Y: 20}}
	tests := []struct {
		name string
		p, q area.Point
		want bool
	}{
		{"through the middle", area.Point{X: 0, Y: 15}, area.Point{X: 30, Y: 15}, true},
		{"ends before it", area.Point{X: 0, Y: 15}, area.Point{X: 9, Y: 15}, false},
		{"passes by", area.Point{X: 0, Y: 25}, area.Point{X: 30, Y: 25}, false},
		{"around the corner", area.Point{X: 0, Y: 15}, area.Point{X: 15, Y: 31}, false},
		{"cuts the corner", area.Point{X: 5, Y: 15}, area.Point{X: 15, Y: 22}, true},
		{"along the side", area.Point{X: 10, Y: 0}, area.Point{X: 10, Y: 30}, true},
		{"a point inside", area.Point{X: 15, Y: 15}, area.Point{X: 15, Y: 15}, true},
	}
	for _, test := range tests {
		if got := wall.Blocks(test.p, test.q); got != test.want {
			t.Errorf("%s: blocked %v, want %v", test.name, got, test.want)
		}
	}
}

func config(t *rapid.T) area.Config {
	return area.Config{
		Width:     rapid.Float64Range(100, 1000).Draw(t, "width"),
		Height:    rapid.Float64Range(100, 1000).Draw(t, "height"),
		Survivors: rapid.IntRange(0, 60).Draw(t, "survivors"),
		Seed:      rapid.Uint64().Draw(t, "seed"),
	}
}

func TestAreaFollowsFromItsSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(t)
		a := area.New(cfg)
		if !reflect.DeepEqual(a, area.New(cfg)) {
			t.Fatal("one seed made two areas")
		}
		if len(a.Survivors) != cfg.Survivors {
			t.Fatalf("%d survivors, want %d", len(a.Survivors), cfg.Survivors)
		}
		whole := area.Rect{Max: area.Point{X: a.Width, Y: a.Height}}
		for _, o := range a.Obstacles {
			if !whole.Contains(o.Min) || !whole.Contains(o.Max) {
				t.Fatalf("obstacle %v is outside", o)
			}
		}
		for _, s := range a.Survivors {
			if !whole.Contains(s) {
				t.Fatalf("survivor %v is outside", s)
			}
		}
		if a.Shadowed(a.Center) {
			t.Fatal("the center is in its own shadow")
		}
		cfg.Seed++
		if len(a.Survivors) > 0 && reflect.DeepEqual(a.Survivors, area.New(cfg).Survivors) {
			t.Fatal("two seeds made the same survivors")
		}
	})
}

func TestSeenAreThoseWithinSight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := area.New(config(t))
		p := point(t, "p")
		seen := 0
		for _, s := range a.Survivors {
			if math.Hypot(s.X-p.X, s.Y-p.Y) <= area.Sight {
				seen++
			}
		}
		if got := len(a.Seen(p)); got != seen {
			t.Fatalf("sees %d, want %d", got, seen)
		}
	})
}

// However a walk is sampled it is the same walk, no faster than Pace, inside the
// area and outside the obstacles.
func TestWalkIsOneWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := area.New(config(t))
		robot := rapid.IntRange(0, 20).Draw(t, "robot")
		w, jump := a.Walk(robot), a.Walk(robot)
		end := rapid.Float64Range(0, 120).Draw(t, "end")
		whole := area.Rect{Max: area.Point{X: a.Width, Y: a.Height}}
		if a.Shadowed(w.At(0)) {
			t.Fatal("starts without radio contact")
		}
		last, lastAt := w.At(0), 0.0
		for at := 0.0; at < end; at += 0.37 {
			p := w.At(at)
			if !whole.Grow(1e-6).Contains(p) {
				t.Fatalf("%v is outside", p)
			}
			if p.Distance(last) > area.Pace*(at-lastAt)+1e-6 {
				t.Fatalf("jumped from %v to %v", last, p)
			}
			for _, o := range a.Obstacles {
				if o.Contains(p) {
					t.Fatalf("%v is in obstacle %v", p, o)
				}
			}
			last, lastAt = p, at
		}
		if got, want := jump.At(end), w.At(end); got != want {
			t.Fatalf("at %v: %v or %v, by how it was sampled", end, got, want)
		}
		if got, want := w.At(end/2), jump.At(end/2); got != want {
			t.Fatalf("looking back: %v or %v", got, want)
		}
		if w.At(-5) != w.At(0) {
			t.Fatal("moved before the start")
		}
	})
}
