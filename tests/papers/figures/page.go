package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"padme/qosmutex/sim/chart"
	"padme/tests/papers/bench"
)

// file is something to be written.
type file struct {
	name string
	data []byte
}

// topic is a page of the results: what it is about, and how it is made.
type topic struct {
	name, title string
	about       string // a sentence for the index
	build       func(*page) error
}

// topics are in the order of the index.
var topics = []topic{padmeTopic, slaFigure1Topic, slaFigure2Topic, slaFigure3Topic, lecturesTopic, votingTopic}

func pageNames() string {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}

// generate makes the files of the page named only, or of all and the index.
func generate(only string) ([]file, error) {
	var files []file
	for _, t := range topics {
		if only != "" && t.name != only {
			continue
		}
		p := &page{}
		p.text("# " + t.title)
		p.text(t.about + " Made by `go run ./tests/papers/figures -only " + t.name + "`; do not edit.")
		if err := t.build(p); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		files = append(files, file{t.name + ".md", []byte(p.markdown.String())})
		files = append(files, p.charts...)
	}
	if files == nil {
		return nil, fmt.Errorf("no page is named %q: take one of %s", only, pageNames())
	}
	if only == "" {
		files = append(files, file{"README.md", []byte(index())})
	}
	return files, nil
}

// page is a Markdown file in the making, with its charts.
type page struct {
	markdown strings.Builder
	charts   []file
}

// text adds a block: a heading, a paragraph or a list.
func (p *page) text(block string) {
	if p.markdown.Len() > 0 {
		p.markdown.WriteByte('\n')
	}
	p.markdown.WriteString(strings.TrimSpace(block))
	p.markdown.WriteByte('\n')
}

// numeric is what a cell may hold for its column to stand on the right.
var numeric = regexp.MustCompile(`^([≈≥≤] ?)?[0-9][0-9.e-]*( ± [0-9.]+)?( %)?$|^—?$`)

// table adds a table. Columns of numbers stand on the right.
func (p *page) table(head []string, rows [][]string) {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	b.WriteByte('|')
	for column := range head {
		if column > 0 && !slices.ContainsFunc(rows, func(r []string) bool { return !numeric.MatchString(r[column]) }) {
			b.WriteString("--:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteByte('\n')
	for _, r := range rows {
		line(r)
	}
	p.text(b.String())
}

// chart adds a chart under a file name without its extension.
func (p *page) chart(name, alt string, c chart.Chart) error {
	var b bytes.Buffer
	if err := chart.Write(&b, chart.SVG, c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.picture(name, alt, b.Bytes())
	return nil
}

func (p *page) picture(name, alt string, svg []byte) {
	p.charts = append(p.charts, file{name + ".svg", svg})
	p.text("![" + alt + "](" + name + ".svg)")
}

// number formats v with so many decimals; a zero is never negative.
func number(v float64, decimals int) string {
	s := fmt.Sprintf("%.*f", decimals, v)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// spread is a mean and the standard deviation of the seeds; 0 alone is what no seed
// shows.
func spread(s bench.Spread, decimals int) string {
	if s == (bench.Spread{}) {
		return "0"
	}
	return number(s.Mean, decimals) + " ± " + number(s.Deviation, decimals)
}

// rounded keeps what a chart shows of a value, so that no chart depends on the last
// bits of a float.
func rounded(v float64) float64 {
	const places = 1e4
	return float64(int64(v*places+0.5)) / places
}
