package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrInvalid is wrapped by every error about what is to be drawn. The rest of its
// text names the place.
var ErrInvalid = errors.New("chart: cannot be drawn")

// ErrFormat is wrapped by every error about a file name whose extension names no
// format.
var ErrFormat = errors.New("chart: the name of the file must end in .svg or .png")

// Format is a kind of file.
type Format string

// Formats.
const (
	SVG Format = "svg"
	PNG Format = "png" // 192 dots per inch
)

const dotsPerInch = 192

// Chart is a [Bars] or a [Lines].
type Chart interface {
	validate() error
	size() (width, height vg.Length)
	draw(c draw.Canvas)
}

// Reference is a horizontal line at a value that others are compared with, such as
// an optimum. Label stands at its right end.
type Reference struct {
	Label string
	Value float64
}

// FormatOf returns the format that the extension of a file's name stands for.
func FormatOf(file string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", fmt.Errorf("%w: got %q", ErrFormat, file)
}

// Save draws c into a file, in the format that its extension names. An existing
// file is replaced; nothing is written if c is invalid.
func Save(file string, c Chart) error {
	format, err := FormatOf(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := Write(&b, format, c); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// Write draws c to w.
func Write(w io.Writer, format Format, c Chart) error {
	if err := c.validate(); err != nil {
		return err
	}
	width, height := c.size()
	switch format {
	case SVG:
		return writeSVG(w, width, height, c)
	case PNG:
		canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
		c.draw(draw.New(canvas))
		_, err := canvas.WriteTo(w)
		return err
	}
	return fmt.Errorf("%w: got the format %q", ErrFormat, format)
}

// writeSVG names, beside our font, others of the same widths: the font itself would
// take half a megabyte in each file.
func writeSVG(w io.Writer, width, height vg.Length, c Chart) error {
	canvas := vgsvg.New(width, height)
	c.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	svg := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	_, err := w.Write(svg)
	return err
}

// checkValues refuses what has no place on an axis.
func checkValues(what string, values []float64) error {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: value %d of %s is %v", ErrInvalid, i+1, what, v)
		}
	}
	return nil
}

func checkReferences(all []Reference) error {
	for i := range all {
		if err := checkValues(fmt.Sprintf("the reference %q", all[i].Label), []float64{all[i].Value}); err != nil {
			return err
		}
	}
	return nil
}
