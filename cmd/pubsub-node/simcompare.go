package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"padme/qosmutex/sim"
)

// column is one of the table of --compare, and what --sort sorts by: the best
// first.
type column struct {
	name string
	// value is what was measured; known is false if nothing was, which comes last.
	value func(*sim.Report) (value float64, known bool)
	most  bool // the greatest is the best, else the least
	text  func(value float64) string
}

var columns = []column{
	{"entries", func(r *sim.Report) (float64, bool) { return float64(r.Entries.Total), true }, true, count},
	{"messages", func(r *sim.Report) (float64, bool) { return r.Messages.PerEntry, r.Entries.Total > 0 }, false, decimals(2)},
	{"delay", func(r *sim.Report) (float64, bool) { return r.SyncDelay.Mean, r.Entries.Total > 1 }, false, spanText},
	{"wait", func(r *sim.Report) (float64, bool) { return r.Wait.Mean, waited(r) }, false, spanText},
	{"p99", func(r *sim.Report) (float64, bool) { return r.Wait.P99, waited(r) }, false, spanText},
	{"max", func(r *sim.Report) (float64, bool) { return r.Wait.Max, waited(r) }, false, spanText},
	{"never", func(r *sim.Report) (float64, bool) { return float64(r.Starvation.Nodes), true }, false, count},
	{"inversions", func(r *sim.Report) (float64, bool) { return float64(r.Inversions.Pending), true }, false, count},
	{"fairness", func(r *sim.Report) (float64, bool) { return r.Fairness, r.Entries.Total > 0 && r.Stopped == 0 }, true, decimals(3)},
}

// rank is smaller for what is better.
func (c *column) rank(r *sim.Report) (value float64, known bool) {
	value, known = c.value(r)
	if c.most {
		value = -value
	}
	return value, known
}

func spanText(v float64) string { return timeText(round3(v)) }

func decimals(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}

// count is a number of things, or a mean of such with three digits or so.
func count(v float64) string {
	if v == math.Trunc(v) || v >= 100 {
		return decimals(0)(v)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// waited reports whether anybody asked: who still waits counts.
func waited(r *sim.Report) bool { return r.Entries.Total+r.Wait.Unserved > 0 }

// round3 leaves three digits or so, for a narrow column.
func round3(seconds float64) float64 {
	digits := 1000.0
	for _, limit := range []float64{1, 10, 100} {
		if seconds >= limit {
			digits /= 10
		}
	}
	if seconds < 0.1 {
		digits = 100_000
	}
	return float64(int64(seconds*digits+0.5)) / digits
}

func columnNames() []string {
	names := []string{"name"}
	for i := range columns {
		names = append(names, columns[i].name)
	}
	return names
}

// ranked is a row of the table.
type ranked struct {
	outcome *outcome
	report  simReport
}

// rows are the outcomes that were measured, the best by a column first; of equal
// ones the one that was named first.
func (s *simSpec) rows(outcomes []outcome, by string) []ranked {
	var all []ranked
	for i := range outcomes {
		if o := &outcomes[i]; o.result != nil && o.err == nil && o.ended {
			all = append(all, ranked{o, s.report(o)})
		}
	}
	at := slices.IndexFunc(columns, func(c column) bool { return c.name == by })
	slices.SortStableFunc(all, func(a, b ranked) int {
		if at < 0 {
			return strings.Compare(a.outcome.String(), b.outcome.String())
		}
		x, okX := columns[at].rank(&a.report.Report)
		y, okY := columns[at].rank(&b.report.Report)
		if okX != okY {
			if okX {
				return -1
			}
			return 1
		}
		return cmp.Compare(x, y)
	})
	return all
}

// writeComparison prints the table of --compare.
func (s *simSpec) writeComparison(w io.Writer, rows []ranked) error {
	padme := slices.ContainsFunc(rows, func(r ranked) bool { return r.outcome.hasModels() })
	fmt.Fprintln(w, s.headline("the same for all", padme))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\t"+strings.ToUpper(strings.Join(columnNames()[1:], "\t")))
	for _, row := range rows {
		cells := []string{row.outcome.short()}
		for i := range columns {
			text := "-"
			if v, known := columns[i].value(&row.report.Report); known {
				text = columns[i].text(v)
			}
			cells = append(cells, text)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	s.writeNotes(w, rows)
	return nil
}

// writeNotes says below the table what its columns do not.
func (s *simSpec) writeNotes(w io.Writer, rows []ranked) {
	var starved, stopped, waiting, overlapping, missed, repeated []string
	for _, row := range rows {
		o := row.outcome
		if n := len(o.result.Starvation.Nodes); n > 0 {
			starved = append(starved, fmt.Sprintf("%s %d", o.short(), n))
		}
		if d := o.result.Stopped; d > 0 {
			stopped = append(stopped, fmt.Sprintf("%s %s", o.short(), short(d)))
		}
		if n := row.report.Wait.Unserved; n > 0 {
			waiting = append(waiting, fmt.Sprintf("%s %d", o.short(), n))
		}
		if n := o.result.Overlaps; n > 0 {
			overlapping = append(overlapping, fmt.Sprintf("%s %d", o.short(), n))
		}
		if d := row.report.Deadlines; d.Missed > 0 {
			missed = append(missed, fmt.Sprintf("%s %d of %d", o.short(), d.Missed, d.Admitted))
		}
		if o.repeats {
			repeated = append(repeated, o.short())
		}
	}
	first := "\n"
	for _, note := range []struct {
		what  string
		names []string
	}{
		{fmt.Sprintf("participants, of %d, that asked and never entered", s.nodes), starved},
		{"nobody entered at the end, though requests waited, for", stopped},
		{"requests that wait at the end, counted with what they have waited so far", waiting},
		{"entries while another was inside", overlapping},
		{"deadlines missed, of those admitted", missed},
		{fmt.Sprintf("the network %s: messages are numbered, acknowledged and repeated for", s.lossy()), repeated},
	} {
		if len(note.names) > 0 {
			fmt.Fprintln(w, first+strings.Join(wrap(note.what+": "+strings.Join(note.names, ", "), tableWidth-2), "\n  "))
			first = ""
		}
	}
}
