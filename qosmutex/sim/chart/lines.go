package chart

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curve is one line, through its points in the order given. Names matter where
// there is more than one curve: they make the legend.
type Curve struct {
	Name string
	X, Y []float64
}

// Lines shows how values depend on another one.
type Lines struct {
	Title, X, Y string // X and Y: the axes
	LogX, LogY  bool   // logarithmic: all values there must be positive
	Curves      []Curve
	References  []Reference
}

func (l *Lines) validate() error {
	if len(l.Curves) == 0 {
		return fmt.Errorf("%w: no curves", ErrInvalid)
	}
	if len(l.Curves) > mostSeries {
		return fmt.Errorf("%w: %d curves, of which only %d can be told apart", ErrInvalid, len(l.Curves), mostSeries)
	}
	for i := range l.Curves {
		v := &l.Curves[i]
		what := fmt.Sprintf("the curve %q", v.Name)
		if len(v.X) != len(v.Y) || len(v.X) == 0 {
			return fmt.Errorf("%w: %s has %d and %d coordinates: it needs points", ErrInvalid, what, len(v.X), len(v.Y))
		}
		if err := checkAxis(what, v.X, l.LogX); err != nil {
			return err
		}
		if err := checkAxis(what, v.Y, l.LogY); err != nil {
			return err
		}
	}
	if err := checkReferences(l.References); err != nil {
		return err
	}
	for i := range l.References {
		if err := checkAxis("the references", []float64{l.References[i].Value}, l.LogY); err != nil {
			return err
		}
	}
	return nil
}

func checkAxis(what string, values []float64, logarithmic bool) error {
	if err := checkValues(what, values); err != nil {
		return err
	}
	for i, v := range values {
		if logarithmic && v <= 0 {
			return fmt.Errorf("%w: value %d of %s is %v: a logarithmic axis begins above 0", ErrInvalid, i+1, what, v)
		}
	}
	return nil
}

func (l *Lines) names() []string {
	names := make([]string, len(l.Curves))
	for i := range l.Curves {
		names[i] = l.Curves[i].Name
	}
	return names
}

func (l *Lines) size() (vg.Length, vg.Length) {
	w := 5.5 * vg.Inch
	return w, 3.4*vg.Inch + legendHeight(l.names(), w-2*margin)
}

func (l *Lines) draw(c draw.Canvas) {
	c = frame(c, l.Title, l.names(), func(i int, c draw.Canvas) {
		y := (c.Min.Y + c.Max.Y) / 2
		c.StrokeLine2(lineStyle(i), c.Min.X, y, c.Max.X, y)
		mark(&c, i, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: y})
	}, l.References)
	p := plot.New()
	styled(p)
	p.X.Label.Text, p.Y.Label.Text = label(l.X), label(l.Y)
	var xs, ys []float64
	for i := range l.Curves {
		xs, ys = append(xs, l.Curves[i].X...), append(ys, l.Curves[i].Y...)
	}
	for i := range l.References {
		ys = append(ys, l.References[i].Value)
	}
	span(&p.X, xs, l.LogX, false)
	span(&p.Y, ys, l.LogY, true)
	p.Add(grid(true), referenceLines(l.References), (*curves)(l))
	p.Draw(c)
}

// span sets range, scale and ticks of an axis. A linear one that would begin near 0
// begins there if it may grow: heights are then in proportion to values.
func span(a *plot.Axis, values []float64, logarithmic, grow bool) {
	least, greatest := values[0], values[0]
	for _, v := range values {
		least, greatest = min(least, v), max(greatest, v)
	}
	if logarithmic {
		a.Min, a.Max = least/1.1, greatest*1.1
		a.Scale, a.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
		return
	}
	if grow {
		if least > 0 && least < greatest/2 {
			least = 0
		}
		greatest += (greatest - least) * 0.06
	}
	if least == greatest { // one value: in the middle
		least, greatest = least-1, greatest+1
	}
	a.Min, a.Max, a.Tick.Marker = least, greatest, plot.TickerFunc(linearTicks)
}

func lineStyle(i int) draw.LineStyle {
	c := colorOf(i)
	if !dark(c) { // a thin line needs more contrast than a bar
		c.R, c.G, c.B = c.R/4*3, c.G/4*3, c.B/4*3
	}
	return draw.LineStyle{Color: c, Width: vg.Points(1.4), Dashes: dashes[i%len(dashes)]}
}

func mark(c *draw.Canvas, i int, at vg.Point) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: lineStyle(i).Color, Radius: vg.Points(2.6), Shape: marks[i%len(marks)]}, at)
}

// curves is the plotter of a Lines.
type curves Lines

// mostMarks is how many marks a curve has at most: more would hide it.
const mostMarks = 25

// Plot draws the curves and marks some of their points.
func (l *curves) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i := range l.Curves {
		v := &l.Curves[i]
		points := make([]vg.Point, len(v.X))
		for j := range points {
			points[j] = vg.Point{X: toX(v.X[j]), Y: toY(v.Y[j])}
		}
		c.StrokeLines(lineStyle(i), points)
		every := (len(points) + mostMarks - 1) / mostMarks
		for j := 0; j < len(points); j += every {
			mark(&c, i, points[j])
		}
	}
}
