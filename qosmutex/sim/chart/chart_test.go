package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"padme/qosmutex/sim/chart"
)

func entries() *chart.Bars {
	return &chart.Bars{
		Title: "Entries in 360 s", Y: "entries", X: "models",
		Categories: []string{"level", "fair-forward-use-use", "a<b & \x1b[31m"},
		Series: []chart.Series{
			{Name: "high", Values: []float64{90, 46, 3}},
			{Name: "medium", Values: []float64{90, 90, 2.5}},
			{Name: "low", Values: []float64{0, 44, 1}},
		},
		References: []chart.Reference{{Label: "optimum 180", Value: 180}, {Label: "centralized 120", Value: 120}, {Label: "also 120", Value: 120}},
	}
}

func violations() *chart.Lines {
	return &chart.Lines{
		Title: "Victims", X: "waiting", Y: "per cent", LogX: true,
		Curves: []chart.Curve{
			{Name: "Kanrar-Chaki", X: []float64{1, 10, 100}, Y: []float64{3, 40, 70}},
			{Name: "Level", X: []float64{1, 10, 100}, Y: []float64{1, 5, 10}},
			{Name: "one point", X: []float64{10}, Y: []float64{50}},
		},
		References: []chart.Reference{{Label: "stated 60", Value: 60}},
	}
}

// texts parses an SVG and returns what is written in it.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var all strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if data, ok := token.(xml.CharData); ok {
			all.Write(data)
		}
	}
}

func write(t *testing.T, f chart.Format, c chart.Chart) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := chart.Write(&b, f, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEverythingIsLabeled(t *testing.T) {
	for _, c := range []struct {
		chart chart.Chart
		want  []string
	}{
		{entries(), []string{
			"Entries in 360 s", "entries", "models", "level", "fair-forward-use-use", "a<b & ·[31m",
			"high", "medium", "low", "optimum 180", "centralized 120", "also 120", "150", "0",
		}},
		{violations(), []string{"Victims", "waiting", "per cent", "Kanrar-Chaki", "Level", "one point", "stated 60", "100"}},
	} {
		got := texts(t, write(t, chart.SVG, c.chart))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
	}
}

func TestSameChartSameBytes(t *testing.T) {
	for _, f := range []chart.Format{chart.SVG, chart.PNG} {
		if !bytes.Equal(write(t, f, entries()), write(t, f, entries())) {
			t.Errorf("two %s files differ", f)
		}
	}
}

func TestPNGHasContent(t *testing.T) {
	for _, c := range []chart.Chart{entries(), violations()} {
		picture, err := png.Decode(bytes.NewReader(write(t, chart.PNG, c)))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[any]bool{}
		for x := range picture.Bounds().Dx() {
			for y := range picture.Bounds().Dy() {
				seen[picture.At(x, y)] = true
			}
		}
		if len(seen) < 10 {
			t.Errorf("only %d colors", len(seen))
		}
	}
}

func TestSeriesDifferInMoreThanColor(t *testing.T) {
	// Without its colors, the same data twice must still look different.
	twice := func(n int) string {
		b := &chart.Bars{Categories: []string{""}, Series: make([]chart.Series, n)}
		for i := range b.Series {
			b.Series[i].Values = []float64{1}
		}
		return string(write(t, chart.SVG, b))
	}
	for n := 2; n <= 5; n++ {
		if a, b := strings.Count(twice(n-1), "<path"), strings.Count(twice(n), "<path"); b < a+3 {
			t.Errorf("series %d adds %d paths: no hatching", n, b-a)
		}
	}
}

func TestBadChartsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		chart chart.Chart
		says  string
	}{
		"no series":     {&chart.Bars{Categories: []string{"a"}}, "no series"},
		"no categories": {&chart.Bars{Series: []chart.Series{{}}}, "no categories"},
		"not a number":  {&chart.Bars{Categories: []string{"a"}, Series: []chart.Series{{Name: "x", Values: []float64{math.NaN()}}}}, `value 1 of the series "x" is NaN`},
		"endless":       {&chart.Bars{Categories: []string{"a"}, Series: []chart.Series{{Values: []float64{math.Inf(1)}}}}, "+Inf"},
		"negative":      {&chart.Bars{Categories: []string{"a"}, Series: []chart.Series{{Values: []float64{-1}}}}, "-1"},
		"lengths":       {&chart.Bars{Categories: []string{"a", "b"}, Series: []chart.Series{{Values: []float64{1}}}}, "1 values for 2 categories"},
		"many series":   {&chart.Bars{Categories: []string{"a"}, Series: make([]chart.Series, 21)}, "21 series"},
		"many bars":     {&chart.Bars{Categories: make([]string, 1001), Series: make([]chart.Series, 1)}, "1001 bars"},
		"reference":     {&chart.Bars{Categories: []string{"a"}, Series: []chart.Series{{Values: []float64{1}}}, References: []chart.Reference{{"r", math.NaN()}}}, `"r"`},
		"no curves":     {&chart.Lines{}, "no curves"},
		"no points":     {&chart.Lines{Curves: []chart.Curve{{}}}, "needs points"},
		"coordinates":   {&chart.Lines{Curves: []chart.Curve{{X: []float64{1}, Y: []float64{1, 2}}}}, "1 and 2 coordinates"},
		"curve NaN":     {&chart.Lines{Curves: []chart.Curve{{X: []float64{1}, Y: []float64{math.NaN()}}}}, "NaN"},
		"logarithm":     {&chart.Lines{LogY: true, Curves: []chart.Curve{{X: []float64{1}, Y: []float64{0}}}}, "logarithmic"},
		"log reference": {&chart.Lines{LogY: true, Curves: []chart.Curve{{X: []float64{1}, Y: []float64{1}}}, References: []chart.Reference{{"r", 0}}}, "references"},
	} {
		err := chart.Write(io.Discard, chart.SVG, c.chart)
		if !errors.Is(err, chart.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
}

func TestOddValuesAreDrawn(t *testing.T) {
	one := func(values ...float64) *chart.Bars {
		return &chart.Bars{Categories: make([]string, len(values)), Series: []chart.Series{{Values: values}}}
	}
	line := func(log bool, x, y []float64) *chart.Lines {
		return &chart.Lines{LogX: log, LogY: log, Curves: []chart.Curve{{X: x, Y: y}}}
	}
	for name, c := range map[string]chart.Chart{
		"zero":      one(0),
		"tiny":      one(1e-300, 2e-300),
		"huge":      one(1e300),
		"one point": line(false, []float64{5}, []float64{5}),
		"far":       line(false, []float64{1e15, 1e15 + 1}, []float64{-3, 4}),
		"log point": line(true, []float64{5}, []float64{5}),
		"decades":   line(true, []float64{1e-9, 1e9}, []float64{1, 1.01}),
	} {
		got := texts(t, write(t, chart.SVG, c))
		if strings.Contains(got, "NaN") || strings.Contains(got, "-0") && !strings.Contains(got, "e-0") || strings.Contains(got, "Inf") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestSaveGoesByTheExtension(t *testing.T) {
	dir := t.TempDir()
	for name, begins := range map[string]string{"a.svg": "<?xml", "b.PNG": "\x89PNG"} {
		file := filepath.Join(dir, name)
		if err := chart.Save(file, entries()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(got, []byte(begins)) {
			t.Errorf("%s begins with %.5q (%v)", name, got, err)
		}
	}
	for _, name := range []string{"c.pdf", "c", ".svg/x"} {
		file := filepath.Join(dir, name)
		if err := chart.Save(file, entries()); !errors.Is(err, chart.ErrFormat) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(dir, "d.svg")
	if err := chart.Save(file, &chart.Bars{}); !errors.Is(err, chart.ErrInvalid) {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an invalid chart leaves a file: %v", err)
	}
}

func ExampleSave() {
	bars := &chart.Bars{
		Title:      "Entries in 360 s",
		Y:          "entries",
		Categories: []string{"level", "fair"},
		Series:     []chart.Series{{Name: "high", Values: []float64{90, 46}}, {Name: "low", Values: []float64{0, 44}}},
		References: []chart.Reference{{Label: "optimum 180", Value: 180}},
	}
	if err := chart.Save(filepath.Join(os.TempDir(), "entries.svg"), bars); err != nil {
		panic(err)
	}
	// Output:
}
