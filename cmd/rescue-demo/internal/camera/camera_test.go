package camera_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/camera"
)

func world() *area.Area {
	return &area.Area{
		Width: 400, Height: 400,
		Obstacles: []area.Rect{{Min: area.Point{X: 180, Y: 200}, Max: area.Point{X: 190, Y: 220}}},
		Survivors: []area.Point{{X: 210, Y: 190}, {X: 390, Y: 390}},
	}
}

func decode(t *testing.T, picture []byte) image.Image {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func isWarm(c color.Color) bool {
	r, _, b, _ := c.RGBA()
	return r > 2*b && r > 0x9000
}

func warmPixels(m image.Image) (n int) {
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			if isWarm(m.At(x, y)) {
				n++
			}
		}
	}
	return n
}

func TestPictureShowsSurvivorAndRuinWhereTheyAre(t *testing.T) {
	m := decode(t, camera.Shoot(world(), area.Point{X: 200, Y: 200}))
	if m.Bounds() != image.Rect(0, 0, camera.Width, camera.Height) {
		t.Fatalf("size %v", m.Bounds())
	}
	// One pixel is 100/64 yards: 10 yards east and south are 6 pixels from the
	// middle, right and down.
	if !isWarm(m.At(camera.Width/2+6, camera.Height/2+6)) {
		t.Error("the survivor is not where it is")
	}
	if isWarm(m.At(camera.Width/2-6, camera.Height/2-6)) {
		t.Error("a survivor where there is none")
	}
	// The ruin is 15 yards west and 10 north.
	if r, g, b, _ := m.At(camera.Width/2-10, camera.Height/2-6).RGBA(); r>>8 != 110 || g>>8 != 110 || b>>8 != 118 {
		t.Error("the ruin is not where it is")
	}
}

func TestSurvivorOutOfSightIsNotWarm(t *testing.T) {
	if n := warmPixels(decode(t, camera.Shoot(world(), area.Point{X: 60, Y: 60}))); n != 0 {
		t.Fatalf("%d warm pixels and no survivor in sight", n)
	}
}

func TestFrameCheckFindsBadPictures(t *testing.T) {
	good := camera.Shoot(world(), area.Point{X: 200, Y: 200})
	if err := (camera.Frame{Picture: good}).Check(); err != nil {
		t.Fatal(err)
	}
	bent := bytes.Clone(good)
	bent[len(bent)/2] ^= 0x40
	var huge bytes.Buffer
	if err := png.Encode(&huge, image.NewGray(image.Rect(0, 0, 640, 480))); err != nil {
		t.Fatal(err)
	}
	for name, picture := range map[string][]byte{
		"empty": nil, "cut short": good[:len(good)-20], "one bit flipped": bent,
		"text": []byte("no picture"), "another size": huge.Bytes(),
	} {
		if (camera.Frame{Picture: picture}).Check() == nil {
			t.Errorf("%s: taken for a good picture", name)
		}
	}
}

func BenchmarkShoot(b *testing.B) {
	a := world()
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = len(camera.Shoot(a, area.Point{X: 200, Y: 200}))
	}
	b.ReportMetric(float64(size), "bytes/picture")
}
