// Package area is the disaster area: where the survivors are, what blocks the
// radio and where the robots walk. Everything in it follows from a seed, so that
// every process of one run sees the same world without being told.
package area

import (
	"math/rand/v2"
	"slices"
)

const (
	// Sight is how far a robot detects a survivor, in yards.
	Sight = 50.0
	// margin is how far survivors, robots and the center stay off an obstacle.
	margin = 4.0
	// tries bounds each search for a free place; an area which is full of
	// obstacles is then used as it is.
	tries = 200
)

// Streams of the random source, so that more robots do not move the survivors.
const (
	streamObstacles = iota
	streamSurvivors
	streamRobots
)

// Config describes an area. Width and Height are in yards.
type Config struct {
	Width, Height float64
	Survivors     int
	Seed          uint64
}

// Area is the world of one run. It does not change and may be shared.
type Area struct {
	Width, Height float64
	Center        Point  // where the rescue center's antenna stands
	Obstacles     []Rect // what radio does not pass
	Survivors     []Point

	seed uint64
}

// New makes the area that cfg describes.
func New(cfg Config) *Area {
	a := &Area{
		Width: cfg.Width, Height: cfg.Height, seed: cfg.Seed,
		Center: Point{cfg.Width / 2, cfg.Height / 2},
	}
	a.placeObstacles(rand.New(rand.NewPCG(cfg.Seed, streamObstacles)))
	a.placeSurvivors(rand.New(rand.NewPCG(cfg.Seed, streamSurvivors)), cfg.Survivors)
	return a
}

// Seen returns the survivors within Sight of p.
func (a *Area) Seen(p Point) []Point {
	var seen []Point
	for _, s := range a.Survivors {
		if p.Distance(s) <= Sight {
			seen = append(seen, s)
		}
	}
	return seen
}

// With returns the area with one more survivor.
func (a *Area) With(survivor Point) *Area {
	more := *a
	more.Survivors = append(slices.Clip(a.Survivors), survivor)
	return &more
}

// Shadowed reports whether an obstacle stands between p and the center.
func (a *Area) Shadowed(p Point) bool { return a.blocked(p, a.Center, 0) }

// blocked reports whether a line from p to q comes within m yards of an
// obstacle.
func (a *Area) blocked(p, q Point, m float64) bool {
	for _, o := range a.Obstacles {
		if o.Grow(m).Blocks(p, q) {
			return true
		}
	}
	return false
}

// placeObstacles puts up ruins, about one in 17,000 square yards. Every other
// one stands near the center, where it throws a long shadow, but leaves some
// space around the antenna.
func (a *Area) placeObstacles(random *rand.Rand) {
	size := min(a.Width, a.Height)
	around := Rect{a.Center, a.Center}.Grow(size / 10)
	for i := range max(2, int(a.Width*a.Height/17_000)) {
		spread := Point{a.Width, a.Height}
		if i%2 == 0 {
			spread = Point{a.Width * 0.6, a.Height * 0.6}
		}
		for range tries {
			w, h := size*(0.05+0.08*random.Float64()), size*(0.05+0.08*random.Float64())
			at := Point{
				a.Center.X + (random.Float64()-0.5)*(spread.X-w) - w/2,
				a.Center.Y + (random.Float64()-0.5)*(spread.Y-h) - h/2,
			}
			r := Rect{at, Point{at.X + w, at.Y + h}}
			if !r.overlaps(around) && !a.touches(r) {
				a.Obstacles = append(a.Obstacles, r)
				break
			}
		}
	}
}

func (r Rect) overlaps(o Rect) bool {
	return r.Min.X <= o.Max.X && o.Min.X <= r.Max.X && r.Min.Y <= o.Max.Y && o.Min.Y <= r.Max.Y
}

// touches reports whether no robot could pass between r and another obstacle.
func (a *Area) touches(r Rect) bool {
	for _, o := range a.Obstacles {
		if r.Grow(3 * margin).overlaps(o) {
			return true
		}
	}
	return false
}

// placeSurvivors puts about two thirds of n in groups of up to five, as where a
// house came down, and the rest anywhere.
func (a *Area) placeSurvivors(random *rand.Rand, n int) {
	for len(a.Survivors) < n {
		group := 1
		if random.Float64() < 0.4 {
			group = 3 + random.IntN(3)
		}
		middle := a.free(random)
		a.Survivors = append(a.Survivors, middle)
		for range min(group-1, n-len(a.Survivors)) {
			a.Survivors = append(a.Survivors, a.near(random, middle))
		}
	}
}

// free returns a random place off the obstacles.
func (a *Area) free(random *rand.Rand) Point {
	var p Point
	for range tries {
		p = Point{random.Float64() * a.Width, random.Float64() * a.Height}
		if !a.blocked(p, p, margin) {
			break
		}
	}
	return p
}

// near returns a free place within half a Sight of middle.
func (a *Area) near(random *rand.Rand, middle Point) Point {
	for range tries {
		p := Point{middle.X + (random.Float64()-0.5)*Sight, middle.Y + (random.Float64()-0.5)*Sight}
		inside := Rect{Max: Point{a.Width, a.Height}}.Contains(p)
		if inside && !a.blocked(p, p, margin) {
			return p
		}
	}
	return middle
}
