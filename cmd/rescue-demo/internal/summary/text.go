package summary

import (
	"fmt"
	"io"
	"strings"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
)

// Write writes the summary for people, at most 80 columns wide where nothing has
// failed.
func (s Summary) Write(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%d robots, %d frequencies, %d survivors, %.1f s, seed %d%s",
		s.Robots, len(s.Frequencies), s.Survivors, s.Duration, s.Seed, note(s.Interrupted, ", interrupted"))
	if s.SwitchedAt == nil {
		line("models %s", s.Models)
	} else {
		line("models %s, after %.1f s %s", s.Models, *s.SwitchedAt, s.ModelsAfter)
	}
	line("")
	s.writeClasses(line)
	line("")
	line("entries              %d", s.Entries)
	line("inversions           %d entries while a more important robot waited", s.Inversions.Pending)
	line("                     or was cut off waiting (%d under level, %d under fair)", s.Inversions.Level, s.Inversions.Fair)
	s.writeFair(line)
	if s.Chaos == nil { // else those that were killed did not tell what they had sent
		line("messages per entry   %.1f", s.MessagesPerEntry)
	}
	line("sync delay           mean %s, p50 %s, p99 %s, of %d handoffs",
		span(s.SyncDelay.Mean), span(s.SyncDelay.P50), span(s.SyncDelay.P99), s.SyncDelay.Count)
	line("frames               %d%s received, %.0f kB, %d bad%s", s.Frames.Received,
		note(s.Chaos == nil, fmt.Sprintf(" of %d", s.Frames.Sent)), float64(s.Frames.Bytes)/1000, s.Frames.Bad,
		note(s.Frames.Refused > 0, fmt.Sprintf(", %d refused by their fence", s.Frames.Refused)))
	line("radio shadows        %d drop-outs, %d holds lost", s.Dropouts, s.Losses)
	if s.Chaos != nil {
		line("")
		s.Chaos.write(line)
	}
	for _, f := range s.Failures {
		line("failed               %s", f)
	}
	if s.Unseen > 0 {
		line("unseen               %d entries, which the next line does not cover", s.Unseen)
	}
	line("overlaps: %d           (%d intervals, %d fences, %d frames)",
		s.Overlaps, s.OverlapKinds.Intervals, s.OverlapKinds.Fences, s.OverlapKinds.Frames)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Summary) writeFair(line func(string, ...any)) {
	f := s.Fair
	if f == nil {
		return
	}
	line("wait under fair      at most %s%s", span(f.Longest), note(f.LongestOf != "", " ("+f.LongestOf+")"))
	switch {
	case f.Bound == 0:
		line("                     (with use or replace nothing bounds it)")
	case f.Err() != nil:
		line("OVERTAKEN            by %d later requests (%s); at most %d may", f.Overtaken, f.Of, f.Bound)
	default:
		line("overtaken            by at most %d later requests%s; %d may", f.Overtaken, note(f.Of != "", " ("+f.Of+")"), f.Bound)
	}
}

func (s Summary) writeClasses(line func(string, ...any)) {
	line("robots which           waited for a       airtime (and part of the robots)")
	line("saw          entries   frequency: mean, max    under level      under fair")
	for i := range scenario.Classes {
		name := scenario.Class(i).String()
		c := s.ByClass[name]
		after := fmt.Sprintf("%14s", "-")
		if s.SwitchedAt != nil {
			after = share(c.After)
		}
		line("%2s survivors %6d   %8s %8s      %s  %s", name, c.Entries, span(c.Wait.Mean), span(c.Wait.Max), share(c.Before), after)
	}
}

func share(s Share) string { return fmt.Sprintf("%6.0f %% (%2.0f %%)", 100*s.Airtime, 100*s.Robots) }

// span writes seconds with three digits.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
}

func note(on bool, text string) string {
	if on {
		return text
	}
	return ""
}
