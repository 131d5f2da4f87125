package main

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sim/chart"
)

// mostPlottedNodes is how many participants have a bar of their own; of more, the
// priorities have.
const mostPlottedNodes = 40

// plotOne draws one run: entries by node, or by priority.
func (s *simSpec) plotOne(file string, o *outcome) error {
	b := &chart.Bars{
		Title: fmt.Sprintf("%s: entries in %s", o.String(), short(o.result.Measured)), Y: "entries",
	}
	var values []float64
	if len(o.result.ByNode) <= mostPlottedNodes {
		b.X = "participant (priority)"
		for i := range o.result.ByNode {
			n := &o.result.ByNode[i]
			b.Categories = append(b.Categories, fmt.Sprintf("%s (%d)", n.Node, n.Priority))
			values = append(values, float64(n.Entries))
		}
	} else {
		b.X = "priority"
		for i := range o.result.ByPriority {
			e := &o.result.ByPriority[i]
			b.Categories = append(b.Categories, fmt.Sprint(e.Priority))
			values = append(values, float64(e.Entries))
		}
	}
	b.Series = []chart.Series{{Name: "entries", Values: values}}
	return chart.Save(file, b)
}

// plotAll draws a comparison: entries by priority, side by side for each run.
func (s *simSpec) plotAll(file string, rows []ranked) error {
	b := &chart.Bars{Title: "Entries in " + short(protocol.Duration(s.duration)), Y: "entries"}
	var priorities []int64
	for _, row := range rows {
		b.Categories = append(b.Categories, row.outcome.short())
		for i := range row.outcome.result.ByPriority {
			priorities = append(priorities, row.outcome.result.ByPriority[i].Priority)
		}
	}
	slices.Sort(priorities)
	for _, p := range slices.Compact(priorities) {
		series := chart.Series{Name: fmt.Sprintf("priority %d", p)}
		for _, row := range rows {
			series.Values = append(series.Values, float64(row.outcome.result.AtPriority(p)))
		}
		b.Series = append(b.Series, series)
	}
	if len(b.Series) > mostPlottedPriorities {
		b.Series = []chart.Series{totals(rows)}
	}
	return chart.Save(file, b)
}

// mostPlottedPriorities is how many bars side by side can still be told apart.
const mostPlottedPriorities = 12

func totals(rows []ranked) chart.Series {
	all := chart.Series{Name: "all priorities"}
	for _, row := range rows {
		all.Values = append(all.Values, float64(row.outcome.result.Entries))
	}
	return all
}

// logged keeps what a person looks for in a log: what the papers' figures show and
// what went wrong; upkeep only with --verbose.
func logged(verbose bool) func(*sim.Record) bool {
	if verbose {
		return nil
	}
	return func(r *sim.Record) bool {
		switch r.Event {
		case sim.Delivered:
			return false
		case sim.Sent, sim.Lost, sim.Duplicated, sim.Rejected:
			return r.Kind.Counted()
		}
		return true
	}
}
