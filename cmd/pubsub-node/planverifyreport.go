package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"padme/qosmutex/plan"
	"padme/qosmutex/sim/stats"
)

// writeVerification prints the comparison of prediction and measurement.
func (f *planFlags) writeVerification(w io.Writer, v *verification, choice *plan.Option) error {
	fmt.Fprintln(w)
	say := paragraphs{w}
	say.item("verified", "%s, run over a broker and with a process for each of %d participants, for %v%s", choice.Name, v.participants, f.verify, f.lengthText())
	say.item("", "messages took %s longer than in the workload at the median, and at most %s longer in 99 of 100 cases, of %d that were sent meanwhile; the prediction includes that", spanText(v.Delays.P50), spanText(v.Delays.P99), v.Delays.Messages)
	if v.Lost > 0 {
		say.item("", "%d holds were lost: this machine was too slow, and the prediction has no lost holds", v.Lost)
	}
	fmt.Fprintln(w)
	if err := writeRows(w, v); err != nil {
		return err
	}
	fmt.Fprintln(w)
	say.item("verdict", "%d of %d figures are inside, %s", v.Inside, len(v.Rows), asFarText(v))
	return nil
}

// lengthText says if the run is not as long as the workload.
func (f *planFlags) lengthText() string {
	if whole := time.Duration(f.spec.duration); whole != f.verify {
		return fmt.Sprintf(", where the workload has %v: the figures below are of runs of %v, and not those above", whole, f.verify)
	}
	return ""
}

func asFarText(v *verification) string {
	return fmt.Sprintf("and in %.0f %% of the simulated runs some figure is as far out as here", 100*v.AsFar)
}

func writeRows(w io.Writer, v *verification) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tPREDICTED\t95 % OF RUNS\tSAME REQUESTS\tMEASURED")
	for i := range v.Rows {
		r := &v.Rows[i]
		text := func(x float64) string { return valueText(r.Figure, stats.Interval{Mean: x}) }
		same, where := "-", "inside"
		if r.Same != nil {
			same = text(*r.Same)
		}
		if !r.Inside {
			where = "outside"
		}
		fmt.Fprintf(t, "%s\t%s\t%s to %s\t%s\t%s\t%s\n", r.Figure, text(r.Median), text(r.Low), text(r.High), same, text(r.Measured), where)
	}
	return t.Flush()
}

// misfit says that a real run is not as it was predicted.
func (v *verification) misfit() error {
	return fmt.Errorf("the real run does not fit the prediction: only %.1f %% of the simulated runs are as far out", 100*v.AsFar)
}
