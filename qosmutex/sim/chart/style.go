package chart

import (
	"image/color"
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	ground = color.White
	ink    = color.Gray{0x22}
	faint  = color.Gray{0xdd} // grid
	muted  = color.Gray{0x66} // reference lines and axes
)

// colors differ in lightness, so that gray tells neighbors apart: CIE L* of 27,
// 75, 45, 87 and 60. They also differ for eyes that see no red or green.
var colors = [...]color.RGBA{
	{0x1f, 0x3f, 0x66, 0xff}, // blue, dark
	{0xe8, 0xae, 0x4a, 0xff}, // ochre
	{0xa8, 0x43, 0x38, 0xff}, // brick
	{0xc3, 0xe0, 0xd8, 0xff}, // mint, light
	{0x6f, 0x92, 0xb5, 0xff}, // blue
}

// hatching is the second sign of a bar: lines across it.
type hatching uint8

const (
	plain hatching = iota
	rising
	falling
	level
	hatchings
)

var dashes = [...][]vg.Length{nil, {6, 3}, {1.5, 2}, {8, 2, 1.5, 2}}

var marks = [...]draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PlusGlyph{}, draw.TriangleGlyph{},
}

// mostSeries is how many can be told apart: the numbers of colors and of second
// signs have no common divisor, so that no pair repeats before.
const mostSeries = len(colors) * int(hatchings)

func colorOf(i int) color.RGBA { return colors[i%len(colors)] }

func hatchingOf(i int) hatching { return hatching(i % int(hatchings)) }

// dark reports whether a hatching on c must be light to be seen.
func dark(c color.RGBA) bool {
	return 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) < 140
}

func textStyle(size vg.Length) text.Style {
	return text.Style{
		Color: ink, Handler: plot.DefaultTextHandler,
		Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
	}
}

var (
	titleText = textStyle(11)
	labelText = textStyle(9)
	smallText = textStyle(8)
)

func width(s text.Style, label string) vg.Length { return s.Width(label) }

// label makes a text that a file may contain: XML has no control characters.
func label(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '·'
		}
		return r
	}, s)
}

// styled gives the axes of p our style.
func styled(p *plot.Plot) {
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = labelText.Font
		a.Label.TextStyle.Color = ink
		a.Label.Padding = vg.Points(4)
		a.Tick.Label.Font = smallText.Font
		a.Tick.Label.Color = ink
		a.Tick.Length = vg.Points(3)
		a.Tick.Color, a.Color = muted, muted
		a.Padding = 0
	}
	p.BackgroundColor = nil
}

// box fills a rectangle with the color and hatching of series i.
func box(c *draw.Canvas, i int, r vg.Rectangle) {
	if r.Max.X <= r.Min.X || r.Max.Y <= r.Min.Y {
		return
	}
	fill := colorOf(i)
	c.FillPolygon(fill, corners(r))
	line := draw.LineStyle{Color: ink, Width: vg.Points(0.5)}
	if dark(fill) {
		line.Color = color.White
	}
	hatch(c, hatchingOf(i), r, line)
	edge := append(corners(r), r.Min)
	c.StrokeLines(draw.LineStyle{Color: ink, Width: vg.Points(0.5)}, edge)
}

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Min.X, Y: r.Max.Y}, r.Max, {X: r.Max.X, Y: r.Min.Y}}
}

// hatch draws the lines of h inside r, at the same distance in every box.
func hatch(c *draw.Canvas, h hatching, r vg.Rectangle, style draw.LineStyle) {
	const apart = vg.Length(4)
	w, t := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	switch h {
	case level:
		for y := apart; y < t; y += apart {
			c.StrokeLine2(style, r.Min.X, r.Min.Y+y, r.Max.X, r.Min.Y+y)
		}
	case rising, falling:
		for d := apart; d < w+t; d += apart * math.Sqrt2 {
			// The line on which x + y is d, clipped to the box.
			x0, y0 := min(d, w), max(d-w, 0)
			x1, y1 := max(d-t, 0), min(d, t)
			if h == falling {
				c.StrokeLine2(style, r.Min.X+x0, r.Min.Y+y0, r.Min.X+x1, r.Min.Y+y1)
			} else {
				c.StrokeLine2(style, r.Max.X-x0, r.Min.Y+y0, r.Max.X-x1, r.Min.Y+y1)
			}
		}
	case plain:
	}
}
