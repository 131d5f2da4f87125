package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"padme/cmd/rescue-demo/internal/area"
)

// Columns and rows which the drawing needs: the map beside the list of robots.
const (
	mapColumns  = 44
	maxMapRows  = 15
	minMapRows  = 6
	frameRows   = 2 // above and below the map
	maxTopLines = 4 // frequencies shown beside the map at most
)

// Styles of a cell, as ANSI sequences; without color they are left out.
const (
	plain    = ""
	dim      = "\x1b[2m"
	survivor = "\x1b[33m"
	seen     = "\x1b[1;31m"
	onAir    = "\x1b[1;30;42m"
	waiting  = "\x1b[1;36m"
	reset    = "\x1b[0m"
)

// Draw returns the lines of the scene for a terminal of the given size, none
// wider than it and not more than its rows less one.
func Draw(s Scene, columns, rows int, color bool) []string {
	lines := []string{title(s)}
	shown := s.Frequencies[:min(len(s.Frequencies), maxTopLines)]
	for _, f := range shown {
		lines = append(lines, f.line())
	}
	if more := len(s.Frequencies) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more frequencies", more))
	}
	bottom := footer(s)
	left := rows - 1 - len(lines) - 1 - frameRows
	if left >= minMapRows && columns >= mapColumns+2 {
		lines = append(lines, picture(s, columns, min(left, maxMapRows), color)...)
	}
	lines = append(lines, bottom)
	for i := range lines {
		lines[i] = cut(lines[i], columns)
	}
	return lines[:min(len(lines), max(1, rows-1))]
}

func title(s Scene) string {
	next := "fair at " + clock(s.SwitchAt)
	if strings.HasPrefix(s.Models, "fair") {
		next = "fair since " + clock(s.SwitchAt)
	}
	return fmt.Sprintf("search and rescue  %s of %s  %s, %s", clock(s.Elapsed), clock(s.Duration), s.Models, next)
}

func (f Frequency) line() string {
	return fmt.Sprintf("%8s MHz  %-9s %5.1f s  %d waiting", harmless(f.Name), f.has(), f.Since.Seconds(), f.Waiting)
}

// has is who has a frequency, or what is known of it.
func (f Frequency) has() string { return harmless(cmp.Or(f.Holder, f.Status, "free")) }

// harmless takes out what a terminal would obey: whoever reaches the demo's broker can
// publish what it shows.
func harmless(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}

func footer(s Scene) string {
	legend := "* survivor  # ruin  C center"
	if s.LastAct != "" {
		legend = s.chaos()
	}
	return fmt.Sprintf("entries %d   frames %d (%d kB)   overlaps %d   %s",
		s.Entries, s.Frames, s.FrameBytes/1000, s.Overlaps, legend)
}

func (s Scene) chaos() string { return fmt.Sprintf("faults %d: %s", s.Faults, s.LastAct) }

// Line is the scene in one line, for where nothing can be redrawn.
func Line(s Scene) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", clock(s.Elapsed), s.Models)
	for _, f := range s.Frequencies[:min(len(s.Frequencies), maxTopLines)] {
		fmt.Fprintf(&b, "  %s: %s", harmless(f.Name), f.has())
	}
	shadow := 0
	for _, r := range s.Robots {
		if r.Shadow {
			shadow++
		}
	}
	fmt.Fprintf(&b, "  waiting %d  cut off %d  entries %d  frames %d  overlaps %d", s.waiting(), shadow, s.Entries, s.Frames, s.Overlaps)
	if s.LastAct != "" {
		b.WriteString("  " + s.chaos())
	}
	return b.String()
}

func (s Scene) waiting() (n int) {
	for _, r := range s.Robots {
		if r.Waits > 0 {
			n++
		}
	}
	return n
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// picture is the map in a frame, with the list of robots on its right.
func picture(s Scene, columns, rows int, color bool) []string {
	grid := draw(s, rows)
	list := robotList(s, rows+frameRows, columns-mapColumns-4)
	edge := "+" + strings.Repeat("-", mapColumns) + "+"
	lines := make([]string, 0, rows+frameRows)
	for i := range rows + frameRows {
		line := edge
		if 0 < i && i <= rows {
			line = "|" + text(grid[i-1], color) + "|"
		}
		lines = append(lines, line+"  "+list[i])
	}
	return lines
}

// cell is one character of the map.
type cell struct {
	char  byte
	style string
}

// draw puts ruins, survivors, the center and the robots on a grid, later ones
// over earlier ones.
func draw(s Scene, rows int) [][]cell {
	grid := make([][]cell, rows)
	for y := range grid {
		grid[y] = slices.Repeat([]cell{{' ', plain}}, mapColumns)
	}
	a := s.Area
	put := func(p area.Point, c cell) {
		x, y := int(p.X/a.Width*mapColumns), rows-1-int(p.Y/a.Height*float64(rows))
		grid[min(max(y, 0), rows-1)][min(max(x, 0), mapColumns-1)] = c
	}
	for _, o := range a.Obstacles {
		step := area.Point{X: a.Width / mapColumns / 2, Y: a.Height / float64(rows) / 2}
		for x := o.Min.X; x <= o.Max.X; x += step.X {
			for y := o.Min.Y; y <= o.Max.Y; y += step.Y {
				put(area.Point{X: x, Y: y}, cell{'#', dim})
			}
		}
	}
	for _, p := range a.Survivors {
		style := survivor
		if slices.ContainsFunc(s.Robots, func(r Robot) bool { return r.At.Distance(p) <= area.Sight }) {
			style = seen
		}
		put(p, cell{'*', style})
	}
	put(a.Center, cell{'C', plain})
	for i, r := range s.Robots {
		put(r.At, cell{digit(i), r.style()})
	}
	return grid
}

// digit is the sign of the i-th robot on the map: 1 to 9, then letters.
func digit(i int) byte {
	const digits = "123456789abdefghijklmnopqrstuvwxyz"
	return digits[i%len(digits)]
}

func (r Robot) style() string {
	switch {
	case r.On != "":
		return onAir
	case r.Shadow:
		return dim
	case r.Waits > 0:
		return waiting
	}
	return plain
}

func text(cells []cell, color bool) string {
	var b strings.Builder
	for _, c := range cells {
		if color && c.style != plain {
			b.WriteString(c.style)
			b.WriteByte(c.char)
			b.WriteString(reset)
		} else {
			b.WriteByte(c.char)
		}
	}
	return b.String()
}

// robotList describes the robots in exactly rows lines of at most width.
func robotList(s Scene, rows, width int) []string {
	list := make([]string, rows)
	for i, r := range s.Robots {
		if i == rows-1 && len(s.Robots) > rows {
			list[i] = fmt.Sprintf("and %d more", len(s.Robots)-i)
			break
		}
		list[i] = cut(fmt.Sprintf("%c sees %-2d %s", digit(i), r.Survivors, r.doing()), width)
	}
	return list
}

func (r Robot) doing() string {
	if r.Dead {
		return "dead"
	}
	var parts []string
	if r.Paused {
		parts = append(parts, "paused")
	}
	if r.Shadow {
		parts = append(parts, "cut off")
	}
	switch {
	case r.On != "":
		parts = append(parts, "on "+harmless(r.On))
	case r.Waits > 0:
		parts = append(parts, fmt.Sprintf("waits %.1f s", r.Waits.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// cut shortens a line to the given number of visible characters; ANSI sequences
// take no room. What is colored, the map, is never cut.
func cut(line string, columns int) string {
	visible := 0
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			end := strings.IndexByte(line[i:], 'm')
			if end < 0 {
				return line[:i]
			}
			i += end + 1
			continue
		}
		if visible == max(columns, 0) {
			return line[:i]
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
		visible++
	}
	return line
}
