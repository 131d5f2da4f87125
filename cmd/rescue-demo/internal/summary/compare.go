package summary

import (
	"fmt"
	"io"
	"strings"

	"padme/cmd/rescue-demo/internal/scenario"
)

// WriteComparison writes for people what differs between two runs of one scenario.
func WriteComparison(w io.Writer, sides [2]Summary) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	first := sides[0]
	line("%d robots, %d frequencies, %d survivors, %.1f s, seed %d, twice%s",
		first.Robots, len(first.Frequencies), first.Survivors, first.Duration, first.Seed, note(first.Interrupted, ", interrupted"))
	line("")
	line("saw  models                               wait: p50       p99       max   in vain  airtime")
	for i := range scenario.Classes {
		name := scenario.Class(i).String()
		for n, s := range sides {
			c := s.ByClass[name]
			line("%-4s %-34s %11s %9s %9s %9s %8.1f s", []string{name, ""}[n], s.Models,
				span(c.Wait.P50), span(c.Wait.P99), span(c.Wait.Max), span(c.InVain), c.Airtime)
		}
	}
	line("")
	for _, s := range sides {
		line("%-34s %d entries, %d inversions, %d holds lost, overlaps: %d", s.Models, s.Entries, s.Inversions.Pending, s.Losses, s.Overlaps)
		for _, f := range s.Failures {
			line("failed  %s", f)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
