package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"padme/qosmutex/sim/stats"
)

// One seed cannot rank: the places of contenders change between seeds. With --seeds each
// runs with the same seeds, in each of which all meet the same requests, and what is shown
// are means with intervals.

// confidence is that of an interval, and of all ties of a table together.
const confidence = 0.95

// maxSeeds bounds the outcomes that are kept.
const maxSeeds = 10_000

// sampled is a row of the table with --seeds: what became of one contender, in the order of
// the seeds.
type sampled struct {
	contender contender
	reports   []simReport
	tie       bool // not told from the first by what the table is sorted by
}

// values are those of a column, if it is known with every seed.
func (r *sampled) values(of func(*column, *simReport) (float64, bool), c *column) (all []float64, known bool) {
	for i := range r.reports {
		v, known := of(c, &r.reports[i])
		if !known {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

func valueIn(c *column, r *simReport) (float64, bool) { return c.value(&r.Report) }
func rankIn(c *column, r *simReport) (float64, bool)  { return c.rank(&r.Report) }

// samples are the contenders, the best mean of a column first, and how many seeds they have:
// those with which all were run to the end.
func (s *simSpec) samples(outcomes []outcome, seeds int, by string) (rows []sampled, complete int) {
	over := make([]bool, seeds)
	for k := range over {
		over[k] = true
	}
	for i := range outcomes {
		o := &outcomes[i]
		over[i%seeds] = over[i%seeds] && o.result != nil && o.err == nil && o.ended
	}
	for i := range outcomes {
		o := &outcomes[i]
		if i%seeds == 0 {
			rows = append(rows, sampled{contender: o.contender})
		}
		if row := &rows[len(rows)-1]; over[i%seeds] {
			row.reports = append(row.reports, s.withSeed(i%seeds).report(o))
		}
	}
	if complete = len(rows[0].reports); complete > 1 {
		rank(rows, by)
	}
	return rows, complete
}

// withSeed is the scenario with the k-th seed.
func (s *simSpec) withSeed(k int) *simSpec {
	other := *s
	other.seed += uint64(k)
	return &other
}

// rank sorts the rows, and says which are not told from the first: zero is in the interval of
// the mean of the differences, seed by seed.
func rank(rows []sampled, by string) {
	at := slices.IndexFunc(columns, func(c column) bool { return c.name == by })
	if at < 0 {
		slices.SortStableFunc(rows, func(a, b sampled) int { return strings.Compare(a.contender.short(), b.contender.short()) })
		return
	}
	c := &columns[at]
	mean := func(r *sampled) float64 {
		if all, known := r.values(rankIn, c); known {
			mean, _ := stats.MeanDeviation(all)
			return mean
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(rows, func(a, b sampled) int { return cmp.Compare(mean(&a), mean(&b)) })
	best, known := rows[0].values(rankIn, c)
	for i := 1; known && i < len(rows); i++ {
		others, known := rows[i].values(rankIn, c)
		if !known {
			continue
		}
		for k := range others {
			others[k] -= best[k]
		}
		difference := stats.IntervalOf(others, confidence, len(rows)-1)
		rows[i].tie = difference.Mean <= difference.Half
		rows[0].tie = rows[0].tie || rows[i].tie
	}
}

// seedColumns are those of the table; --json has all.
func seedColumns(by string) (shown []*column) {
	for i := range columns {
		c := &columns[i]
		if slices.Contains([]string{"entries", "messages", "delay", "wait", "p99", "never", "fairness", by}, c.name) {
			shown = append(shown, c)
		}
	}
	return shown
}

// writeSeeds prints the table.
func (s *simSpec) writeSeeds(w io.Writer, rows []sampled, seeds int, by string) error {
	padme := slices.ContainsFunc(rows, func(r sampled) bool { return r.contender.hasModels() })
	fmt.Fprintln(w, s.headline("the same for all", padme))
	shown := seedColumns(by)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "NAME\tBEST")
	for _, c := range shown {
		fmt.Fprint(t, "\t"+strings.ToUpper(c.name))
	}
	fmt.Fprintln(t)
	for i := range rows {
		place := ""
		switch {
		case rows[i].tie:
			place = "tie"
		case i == 0 && len(rows) > 1 && by != "name":
			place = "best"
		}
		fmt.Fprintf(t, "%s\t%s", rows[i].contender.short(), place)
		for _, c := range shown {
			text := "-"
			if all, known := rows[i].values(valueIn, c); known {
				v := stats.IntervalOf(all, confidence, 1)
				text = c.text(v.Mean) + " ±" + c.text(v.Half)
			}
			fmt.Fprint(t, "\t"+text)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	note := fmt.Sprintf("means of %d seeds from %d on, with 95 %% intervals (Student's t); in each seed all meet the same requests", seeds, s.seed)
	if by != "name" && len(rows) > 1 {
		note += fmt.Sprintf("; without tie: by %s worse than the first line, of all such lines together with 95 %% confidence (paired differences)", by)
	}
	fmt.Fprintln(w, "\n"+strings.Join(wrap(note, tableWidth-2), "\n  "))
	return nil
}

// seedReport is what --json prints of a contender.
type seedReport struct {
	Name     string                    `json:"name"`
	Seeds    int                       `json:"seeds"`
	Best     bool                      `json:"best"` // not told from the best: of a tie it is true for several
	Columns  map[string]stats.Interval `json:"columns"`
	Scenario simDocument               `json:"scenario"` // with the first seed
}

func seedReports(rows []sampled, by string) (all []seedReport) {
	for i := range rows {
		r := seedReport{Name: rows[i].contender.short(), Seeds: len(rows[i].reports), Best: by != "name" && (i == 0 || rows[i].tie), Columns: map[string]stats.Interval{}, Scenario: rows[i].reports[0].Scenario}
		for j := range columns {
			if values, known := rows[i].values(valueIn, &columns[j]); known {
				r.Columns[columns[j].name] = stats.IntervalOf(values, confidence, 1)
			}
		}
		all = append(all, r)
	}
	return all
}

// finishSeeds prints what there is with --seeds.
func (f *simFlags) finishSeeds(ctx context.Context, out io.Writer, outcomes []outcome) error {
	for i := range outcomes {
		if outcomes[i].err != nil {
			return failed(&outcomes[i])
		}
	}
	rows, complete := f.spec.samples(outcomes, f.seeds, f.sort)
	if complete < 2 {
		return fmt.Errorf("%w: %d of %d seeds were over, and an interval takes two", context.Cause(ctx), complete, f.seeds)
	}
	var err error
	if f.asJSON {
		err = writeJSON(out, seedReports(rows, f.sort))
	} else {
		err = f.spec.writeSeeds(out, rows, complete, f.sort)
	}
	if err == nil && complete < f.seeds {
		return fmt.Errorf("%w: %d of %d seeds were over", context.Cause(ctx), complete, f.seeds)
	}
	return err
}
