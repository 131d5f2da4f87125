package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"padme/qosmutex/sim"
)

// column is one of the table of --compare, and what --sort sorts by: the best
// first.
type column struct {
	name string
	// rank is smaller for what is better; known is false where nothing was measured,
	// which comes last.
	rank func(*sim.Report) (value float64, known bool)
	text func(*sim.Report) string
}

var columns = []column{
	{
		"entries", func(r *sim.Report) (float64, bool) { return -float64(r.Entries.Total), true },
		func(r *sim.Report) string { return fmt.Sprint(r.Entries.Total) },
	},
	{
		"messages", func(r *sim.Report) (float64, bool) { return r.Messages.PerEntry, r.Entries.Total > 0 },
		func(r *sim.Report) string { return fmt.Sprintf("%.2f", r.Messages.PerEntry) },
	},
	{
		"delay", func(r *sim.Report) (float64, bool) { return r.SyncDelay.Mean, r.Entries.Total > 1 },
		func(r *sim.Report) string { return timeText(round3(r.SyncDelay.Mean)) },
	},
	{
		"wait", func(r *sim.Report) (float64, bool) { return r.Wait.Mean, waited(r) },
		func(r *sim.Report) string { return timeText(round3(r.Wait.Mean)) },
	},
	{
		"p99", func(r *sim.Report) (float64, bool) { return r.Wait.P99, waited(r) },
		func(r *sim.Report) string { return timeText(round3(r.Wait.P99)) },
	},
	{
		"max", func(r *sim.Report) (float64, bool) { return r.Wait.Max, waited(r) },
		func(r *sim.Report) string { return timeText(round3(r.Wait.Max)) },
	},
	{
		"never", func(r *sim.Report) (float64, bool) { return float64(r.Starvation.Nodes), true },
		func(r *sim.Report) string { return fmt.Sprint(r.Starvation.Nodes) },
	},
	{
		"inversions", func(r *sim.Report) (float64, bool) { return float64(r.Inversions.Pending), true },
		func(r *sim.Report) string { return fmt.Sprint(r.Inversions.Pending) },
	},
	{
		"fairness", func(r *sim.Report) (float64, bool) { return -r.Fairness, r.Entries.Total > 0 && r.Stopped == 0 },
		func(r *sim.Report) string { return fmt.Sprintf("%.3f", r.Fairness) },
	},
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
			if _, known := columns[i].rank(&row.report.Report); known {
				text = columns[i].text(&row.report.Report)
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
