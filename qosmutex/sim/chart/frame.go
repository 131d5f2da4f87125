package chart

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const margin = vg.Length(10)

// swatch is the width of a sample in the legend.
const swatch = vg.Length(20)

// frame draws what all charts have: white ground, title, a legend above the data
// and, at the right, room for the labels of references. It returns the rest.
func frame(c draw.Canvas, title string, names []string, sample func(i int, c draw.Canvas), references []Reference) draw.Canvas {
	c.FillPolygon(ground, corners(c.Rectangle))
	c = draw.Crop(c, margin, -margin, margin, -margin)
	if title != "" {
		line := titleText.FontExtents().Height
		c.FillText(titleText, vg.Point{X: c.Min.X, Y: c.Max.Y - line + titleText.FontExtents().Descent}, label(title))
		c.Max.Y -= line + 6
	}
	if len(names) > 1 {
		c.Max.Y -= legend(c, names, sample) + 6
	}
	c.Max.Y -= smallText.FontExtents().Height / 2 // the highest label of the axis
	var room vg.Length
	for i := range references {
		room = max(room, width(smallText, label(references[i].Label))+6)
	}
	c.Max.X -= room
	return c
}

// legend draws samples and names in rows and returns their height.
func legend(c draw.Canvas, names []string, sample func(i int, c draw.Canvas)) vg.Length {
	const gap, row = vg.Length(14), vg.Length(14)
	x, y := c.Min.X, c.Max.Y-row
	for i, name := range names {
		name = label(name)
		w := swatch + 4 + width(labelText, name)
		if x > c.Min.X && x+w > c.Max.X {
			x, y = c.Min.X, y-row
		}
		sample(i, draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y + 2}, Max: vg.Point{X: x + swatch, Y: y + row - 2},
		}})
		c.FillText(labelText, vg.Point{X: x + swatch + 4, Y: y + 4}, name)
		x += w + gap
	}
	return c.Max.Y - y
}

// legendHeight is the height of the legend on a canvas of a width.
func legendHeight(names []string, room vg.Length) vg.Length {
	rows, x := vg.Length(1), vg.Length(0)
	for _, name := range names {
		w := swatch + 4 + width(labelText, label(name))
		if x > 0 && x+w > room {
			rows, x = rows+1, 0
		}
		x += w + 14
	}
	if len(names) < 2 {
		return 0
	}
	return rows*14 + 6
}

// referenceLines is a plotter of references.
type referenceLines []Reference

// Plot draws the lines over the data and their labels to the right of it. Labels
// that would cover each other move apart.
func (r referenceLines) Plot(c draw.Canvas, p *plot.Plot) {
	_, toY := p.Transforms(&c)
	sorted := slices.Clone(r)
	slices.SortStableFunc(sorted, func(a, b Reference) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	free := vg.Length(math.Inf(-1))
	for i := range sorted {
		y := toY(sorted[i].Value)
		style := draw.LineStyle{Color: muted, Width: vg.Points(0.9), Dashes: []vg.Length{3, 2}}
		c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
		at := max(y-3, free)
		c.FillText(smallText, vg.Point{X: c.Max.X + 4, Y: at}, label(sorted[i].Label))
		free = at + smallText.FontExtents().Height
	}
}

// grid draws faint lines at the labeled values.
func grid(vertical bool) plot.Plotter {
	g := plotter.NewGrid()
	g.Horizontal = draw.LineStyle{Color: faint, Width: vg.Points(0.5)}
	g.Vertical = g.Horizontal
	if !vertical {
		g.Vertical.Color = nil
	}
	return g
}

// number is the shortest text of v, of at most four digits.
func number(v float64) string {
	if a := math.Abs(v); a != 0 && (a >= 1e6 || a < 1e-3) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := 0
	for _, limit := range []float64{100, 10, 1} {
		if math.Abs(v) < limit {
			digits++
		}
	}
	return strconv.FormatFloat(math.Round(v*math.Pow10(digits))/math.Pow10(digits), 'f', -1, 64)
}

// linearTicks labels about six round values.
func linearTicks(least, greatest float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10((greatest - least) / 5))))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (greatest-least)/step <= 7 {
			break
		}
		step *= by
	}
	var ticks []plot.Tick
	for n := math.Ceil(least/step-1e-9) + 0; n*step <= greatest*(1+1e-9); n++ {
		v := n * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(roundTo(v, step), 'f', -1, 64)})
		if len(ticks) > 20 {
			break // steps that vanish beside the values
		}
	}
	return ticks
}

// roundTo takes from v what is rounding of n·step.
func roundTo(v, step float64) float64 {
	digits := math.Pow10(max(0, 1-int(math.Floor(math.Log10(step)))))
	if math.IsInf(digits, 0) {
		return v
	}
	return math.Round(v*digits) / digits
}

// logTicks labels powers of ten, and between them 2 and 5 where there are few.
func logTicks(least, greatest float64) []plot.Tick {
	var ticks []plot.Tick
	few := math.Log10(greatest/least) < 3
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(greatest)); e++ {
		for d := 1.0; d < 10; d++ {
			v := d * math.Pow(10, e)
			if v < least*(1-1e-9) || v > greatest*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if d == 1 || few && (d == 2 || d == 5) {
				t.Label = strconv.FormatFloat(v, 'g', 3, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
