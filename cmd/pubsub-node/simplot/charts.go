package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"padme/qosmutex/sim/chart"
)

// run is the part of what is printed for one run that is drawn.
type run struct {
	Scenario struct {
		Algorithm, Models string
	}
	Measured float64 // seconds
	Entries  struct {
		Total      float64
		ByNode     []float64
		ByPriority map[string]float64
	}
	Nodes []struct {
		Node     string
		Priority int64
	}
}

func (r *run) check() error {
	if r.Scenario.Algorithm == "" || len(r.Nodes) == 0 || len(r.Nodes) != len(r.Entries.ByNode) {
		return errors.New("no algorithm, or not the entries of each participant")
	}
	for p := range r.Entries.ByPriority {
		if _, err := strconv.ParseInt(p, 10, 64); err != nil {
			return fmt.Errorf("the priority %q is no whole number", p)
		}
	}
	return nil
}

func (r *run) name() string {
	if r.Scenario.Models == "" {
		return r.Scenario.Algorithm
	}
	return r.Scenario.Algorithm + ":" + r.Scenario.Models
}

// short names models by their initials, to fit below a bar.
func (r *run) short() string {
	if r.Scenario.Models == "" {
		return r.Scenario.Algorithm
	}
	initials := ""
	for word := range strings.SplitSeq(r.Scenario.Models, "-") {
		initials += strings.ToUpper(word[:min(1, len(word))])
	}
	return r.Scenario.Algorithm + ":" + initials
}

func (r *run) measured() string { return strconv.FormatFloat(r.Measured, 'f', -1, 64) + "s" }

// mostNodes is how many participants have a bar of their own; of more, the priorities have.
const mostNodes = 40

// one draws one run: entries by node, or by priority.
func one(r *run) chart.Chart {
	b := &chart.Bars{Title: r.name() + ": entries in " + r.measured(), Y: "entries"}
	values := r.Entries.ByNode
	if len(r.Nodes) <= mostNodes {
		b.X = "participant (priority)"
		for _, n := range r.Nodes {
			b.Categories = append(b.Categories, fmt.Sprintf("%s (%d)", n.Node, n.Priority))
		}
	} else {
		b.X = "priority"
		b.Categories = priorities([]run{*r})
		values = nil
		for _, p := range b.Categories {
			values = append(values, r.Entries.ByPriority[p])
		}
	}
	b.Series = []chart.Series{{Name: "entries", Values: values}}
	return b
}

// mostPriorities is how many bars side by side can still be told apart.
const mostPriorities = 12

// comparison draws entries by priority, side by side for each run.
func comparison(runs []run) chart.Chart {
	b := &chart.Bars{Title: "Entries in " + runs[0].measured(), Y: "entries"}
	totals := chart.Series{Name: "all priorities"}
	for i := range runs {
		b.Categories = append(b.Categories, runs[i].short())
		totals.Values = append(totals.Values, runs[i].Entries.Total)
	}
	all := priorities(runs)
	if len(all) > mostPriorities {
		b.Series = []chart.Series{totals}
		return b
	}
	for _, p := range all {
		series := chart.Series{Name: "priority " + p}
		for i := range runs {
			series.Values = append(series.Values, runs[i].Entries.ByPriority[p])
		}
		b.Series = append(b.Series, series)
	}
	return b
}

// priorities are those with entries in any run, in their order as numbers.
func priorities(runs []run) []string {
	all := map[string]bool{}
	for i := range runs {
		for p := range runs[i].Entries.ByPriority {
			all[p] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return cmp.Compare(x, y)
	})
}
