package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mostBars bounds the width of a chart.
const mostBars = 1000

// Series is one set of bars, with a value for each category. Names matter where
// there is more than one series: they make the legend.
type Series struct {
	Name   string
	Values []float64 // none negative
}

// Bars shows values by category, the series side by side. The width follows from
// the number of bars.
type Bars struct {
	Title, X, Y string // X and Y: the axes
	Categories  []string
	Series      []Series
	References  []Reference
}

func (b *Bars) validate() error {
	if len(b.Series) == 0 || len(b.Categories) == 0 {
		return fmt.Errorf("%w: no series or no categories", ErrInvalid)
	}
	if len(b.Series) > mostSeries {
		return fmt.Errorf("%w: %d series, of which only %d can be told apart", ErrInvalid, len(b.Series), mostSeries)
	}
	if n := len(b.Series) * len(b.Categories); n > mostBars {
		return fmt.Errorf("%w: %d bars, above %d", ErrInvalid, n, mostBars)
	}
	for i := range b.Series {
		s := &b.Series[i]
		what := fmt.Sprintf("the series %q", s.Name)
		if len(s.Values) != len(b.Categories) {
			return fmt.Errorf("%w: %s has %d values for %d categories", ErrInvalid, what, len(s.Values), len(b.Categories))
		}
		if err := checkValues(what, s.Values); err != nil {
			return err
		}
		for j, v := range s.Values {
			if v < 0 {
				return fmt.Errorf("%w: value %d of %s is %v: no bar is that short", ErrInvalid, j+1, what, v)
			}
		}
	}
	return checkReferences(b.References)
}

const (
	barLeast = vg.Length(7)
	barMost  = vg.Length(26)
	barGap   = 0.25 // of a category's width
)

func (b *Bars) names() []string {
	names := make([]string, len(b.Series))
	for i := range b.Series {
		names[i] = b.Series[i].Name
	}
	return names
}

func (b *Bars) labels() (widest vg.Length) {
	for _, name := range b.Categories {
		widest = max(widest, width(smallText, label(name)))
	}
	return widest
}

func (b *Bars) size() (vg.Length, vg.Length) {
	n := vg.Length(len(b.Categories))
	slot := max(barLeast*vg.Length(len(b.Series))/(1-barGap), min(b.labels()+6, 40))
	w := max(5.5*vg.Inch, n*slot+1.2*vg.Inch)
	h := 3.4*vg.Inch + legendHeight(b.names(), w-2*margin)
	if b.slanted(w) {
		h += b.labels() * 0.7
	}
	return w, h
}

// slanted reports whether the categories' names do not fit side by side.
func (b *Bars) slanted(w vg.Length) bool {
	return b.labels()+4 > (w-1.2*vg.Inch)/vg.Length(len(b.Categories))
}

func (b *Bars) draw(c draw.Canvas) {
	w := c.Max.X - c.Min.X
	c = frame(c, b.Title, b.names(), func(i int, c draw.Canvas) { box(&c, i, c.Rectangle) }, b.References)
	p := plot.New()
	styled(p)
	p.X.Label.Text, p.Y.Label.Text = label(b.X), label(b.Y)
	ticks := make(plot.ConstantTicks, len(b.Categories))
	for i, name := range b.Categories {
		ticks[i] = plot.Tick{Value: float64(i), Label: label(name)}
	}
	p.X.Tick.Marker, p.X.Tick.Width, p.X.Tick.Length = ticks, 0, 3
	if b.slanted(w) {
		p.X.Tick.Label.Rotation = math.Pi / 4
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	}
	p.X.Min, p.X.Max = -0.5, float64(len(b.Categories))-0.5
	p.Y.Min, p.Y.Max = 0, b.top()
	p.Y.Tick.Marker = plot.TickerFunc(linearTicks)
	p.Add(grid(false), (*bars)(b), referenceLines(b.References))
	p.Draw(c)
}

// top is where the axis ends: above the highest bar and its number.
func (b *Bars) top() float64 {
	most := 0.0
	for i := range b.Series {
		for _, v := range b.Series[i].Values {
			most = max(most, v)
		}
	}
	for i := range b.References {
		most = max(most, b.References[i].Value)
	}
	if most == 0 {
		return 1
	}
	return most * 1.08
}

// bars is the plotter of a Bars.
type bars Bars

// Plot draws the bars, with their values above them where there is room.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	w := min((toX(1)-toX(0))*(1-barGap)/vg.Length(len(b.Series)), barMost)
	style := smallText
	style.XAlign = draw.XCenter
	for i := range b.Series {
		for j, v := range b.Series[i].Values {
			x := toX(float64(j)) + w*(vg.Length(i)-vg.Length(len(b.Series))/2)
			y := toY(v)
			box(&c, i, vg.Rectangle{Min: vg.Point{X: x, Y: c.Min.Y}, Max: vg.Point{X: x + w, Y: y}})
			if text := number(v); width(style, text) <= w {
				c.FillText(style, vg.Point{X: x + w/2, Y: y + 2}, text)
			}
		}
	}
}
