package area

import "math"

// Point is a place in the area, in yards east and north of its corner.
type Point struct{ X, Y float64 }

// Distance returns the distance between p and q in yards.
func (p Point) Distance(q Point) float64 { return math.Hypot(p.X-q.X, p.Y-q.Y) }

// Toward returns the point which is the fraction f of the way from p to q.
func (p Point) Toward(q Point, f float64) Point {
	return Point{p.X + f*(q.X-p.X), p.Y + f*(q.Y-p.Y)}
}

// Rect is a rectangle parallel to the axes; its border belongs to it.
type Rect struct{ Min, Max Point }

// Contains reports whether p lies in r.
func (r Rect) Contains(p Point) bool {
	return r.Min.X <= p.X && p.X <= r.Max.X && r.Min.Y <= p.Y && p.Y <= r.Max.Y
}

// Grow returns r with a margin of m yards on every side.
func (r Rect) Grow(m float64) Rect {
	return Rect{Point{r.Min.X - m, r.Min.Y - m}, Point{r.Max.X + m, r.Max.Y + m}}
}

// Blocks reports whether the straight line from p to q meets r. It clips the
// line against the four sides (Liang and Barsky).
func (r Rect) Blocks(p, q Point) bool {
	enter, leave := 0.0, 1.0
	clip := func(from, delta, low, high float64) bool {
		if delta == 0 {
			return low <= from && from <= high
		}
		first, last := (low-from)/delta, (high-from)/delta
		if first > last {
			first, last = last, first
		}
		enter, leave = max(enter, first), min(leave, last)
		return enter <= leave
	}
	return clip(p.X, q.X-p.X, r.Min.X, r.Max.X) && clip(p.Y, q.Y-p.Y, r.Min.Y, r.Max.Y)
}
