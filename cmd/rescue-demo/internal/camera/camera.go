// Package camera renders what a robot's camera sees as a small PNG picture:
// the ground around it from above, ruins, and survivors as warm blobs.
package camera

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"sync"

	"padme/cmd/rescue-demo/internal/area"
)

// Size of a picture in pixels, and how many yards one pixel covers. The picture
// is as wide as a robot's sight.
const (
	Width  = 64
	Height = 48
	scale  = 2 * area.Sight / Width
	warmth = 4.0 // radius of a survivor's blob in yards
)

// encoder trades size for speed: a picture is sent once and thrown away.
var encoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: &pool{}}

type pool struct{ buffers sync.Pool }

func (p *pool) Get() *png.EncoderBuffer {
	b, _ := p.buffers.Get().(*png.EncoderBuffer)
	return b
}
func (p *pool) Put(b *png.EncoderBuffer) { p.buffers.Put(b) }

// Shoot returns the PNG of what a camera above p sees. The same place gives the
// same picture. It is safe for concurrent use.
func Shoot(a *area.Area, p area.Point) []byte {
	picture := image.NewRGBA(image.Rect(0, 0, Width, Height))
	seen := a.Seen(p)
	for y := range Height {
		for x := range Width {
			// North is up: the first row is the farthest north.
			at := area.Point{
				X: p.X + (float64(x)+0.5-Width/2)*scale,
				Y: p.Y - (float64(y)+0.5-Height/2)*scale,
			}
			picture.SetRGBA(x, y, warm(ground(a, at), at, seen))
		}
	}
	var out bytes.Buffer
	// Encoding into memory fails only for an empty picture.
	if err := encoder.Encode(&out, picture); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// Shows reports whether a picture taken above p shows what is at q.
func Shows(p, q area.Point) bool {
	return math.Abs(p.X-q.X) <= Width*scale/2 && math.Abs(p.Y-q.Y) <= Height*scale/2 && p.Distance(q) <= area.Sight
}

// ground is what lies at p: soil with some grain, concrete, or nothing outside
// the area.
func ground(a *area.Area, p area.Point) color.RGBA {
	if !(area.Rect{Max: area.Point{X: a.Width, Y: a.Height}}).Contains(p) {
		return color.RGBA{8, 8, 12, 255}
	}
	for _, o := range a.Obstacles {
		if o.Contains(p) {
			return color.RGBA{110, 110, 118, 255}
		}
	}
	// The grain sticks to the ground, so that the picture moves with the robot.
	grain := uint8(6 * (2 + math.Sin(math.Floor(p.X/3)*12.9898+math.Floor(p.Y/3)*78.233)))
	return color.RGBA{38 + grain, 46 + grain, 30 + grain, 255}
}

// warm mixes in the heat of the survivors near p.
func warm(c color.RGBA, p area.Point, survivors []area.Point) color.RGBA {
	heat := 0.0
	for _, s := range survivors {
		heat = max(heat, 1-p.Distance(s)/warmth)
	}
	mix := func(from, to uint8) uint8 { return uint8(float64(from)*(1-heat) + float64(to)*heat) }
	return color.RGBA{mix(c.R, 255), mix(c.G, 190), mix(c.B, 60), 255}
}
