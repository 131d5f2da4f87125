package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// simReport is what --json prints: what was measured, and the scenario that was,
// under the names of the flags, so that --scenario reads it.
type simReport struct {
	Scenario simDocument `json:"scenario"`
	Channels string      `json:"channels,omitempty"` // what repairs the network for the algorithm
	Complete bool        `json:"complete"`           // false: interrupted
	sim.Report
	Nodes []simNode `json:"nodes"` // in the order of entries.byNode
}

type simNode struct {
	Node     string `json:"node"`
	Priority int64  `json:"priority"`
}

// channelsNote says what repairs the network for an algorithm.
func (s *simSpec) channelsNote(o *outcome) string {
	if !o.repeats {
		return ""
	}
	return fmt.Sprintf("the network %s, which %s does not bear: messages are numbered, acknowledged and repeated", s.lossy(), o.algorithm.Name)
}

func (s *simSpec) report(o *outcome) simReport {
	r := simReport{Scenario: s.document(o), Channels: s.channelsNote(o), Complete: o.ended, Report: o.result.Report()}
	for i := range o.result.ByNode {
		n := &o.result.ByNode[i]
		r.Nodes = append(r.Nodes, simNode{n.Node, n.Priority})
	}
	return r
}

// headline says in a few lines of 80 columns what is run.
func (s *simSpec) headline(name string, trees bool) string {
	latency := s.latency.text
	if s.matrix != nil {
		latency = "by a matrix"
	}
	asks := "nobody asks but the trace"
	switch {
	case s.open():
		asks = "each participant asks every " + s.load.every.text + ", whatever became of its earlier requests"
	case s.loaded():
		asks = fmt.Sprintf("each participant asks again %s after it leaves", s.load.think.text)
	}
	if names := s.asksForText(); names != "" {
		asks += ", for " + names
	}
	text := fmt.Sprintf("%s: %d nodes, fan-out %d, latency %s, critical section %s; %s; %s measured, seed %d",
		name, s.nodes, s.fanout, latency, s.load.cs.text, asks, short(protocol.Duration(s.duration)), s.seed)
	if trees {
		text += "; " + s.treeText()
	}
	return strings.Join(wrap(text, tableWidth), "\n") + "\n"
}

// tableWidth is what fits a terminal.
const tableWidth = 80

// mostShownNodes is how many participants the table for people lists.
const mostShownNodes = 20

// writeReport prints one run for people.
func (s *simSpec) writeReport(w io.Writer, o *outcome) error {
	r, p := o.result, o.result.Report()
	fmt.Fprint(w, s.headline(o.String(), o.hasModels()))
	if note := s.channelsNote(o); note != "" {
		fmt.Fprintln(w, strings.Join(wrap(note, tableWidth), "\n"))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "entries\t%d\tinside %.1f %% of %s\n", r.Entries, 100*r.Rate(), short(r.Measured))
	fmt.Fprintf(t, "messages\t%d\t%s per entry; %d of upkeep beside\n", r.Counted, decimal(r.PerEntry()), r.Upkeep)
	if r.SyncDelay.Count() > 0 {
		fmt.Fprintf(t, "delay\t%s\tfrom a leave to the next entry; %s\n", timeText(p.SyncDelay.Mean), spread(p.SyncDelay))
	}
	if r.Entries+p.Wait.Unserved > 0 {
		fmt.Fprintf(t, "wait\t%s\tfrom a request to its entry; %s,\n", timeText(p.Wait.Mean), spread(p.Wait.Times))
		fmt.Fprintf(t, "\t\tlongest %s%s\n", timeText(p.Wait.Max), censored(p.Wait.Unserved))
	}
	switch {
	case r.Stopped > 0:
		fmt.Fprintf(t, "fairness\t-\tnobody entered in the last %s, though requests waited\n", short(r.Stopped))
	case r.Entries > 0:
		fmt.Fprintf(t, "fairness\t%.3f\tJain's index: 1 if all enter equally often\n", r.Fairness)
	}
	v := &r.Inversions
	fmt.Fprintf(t, "inversions\t%d\tknown %d; overtakers %d, victims %d\n", v.Pending, v.Known, v.Overtakers, v.Victims)
	s.writeRare(t, o)
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.ByPriority) > 0 {
		fmt.Fprintln(w)
		if err := writePriorities(w, r); err != nil {
			return err
		}
	}
	if len(r.ByNode) > mostShownNodes {
		return nil
	}
	fmt.Fprintln(w)
	return writeNodes(w, r)
}

// writeRare prints what most runs have none of.
func (s *simSpec) writeRare(t io.Writer, o *outcome) {
	r := o.result
	if v := &r.Starvation; v.Waiting > 0 {
		fmt.Fprintf(t, "unserved\t%d\trequests that wait at the end, the longest for %s\n", v.Waiting, short(v.Longest))
	}
	if nodes := r.Starvation.Nodes; len(nodes) > 0 {
		most := min(len(nodes), 8)
		more := ""
		if len(nodes) > most {
			more = " …"
		}
		fmt.Fprintf(t, "starved\t%d\tasked and never entered: %s%s\n", len(nodes), printable(strings.Join(nodes[:most], " ")), more)
	}
	if d := &r.Deadlines; d.Admitted()+d.Refused > 0 {
		fmt.Fprintf(t, "deadlines\t%d\tadmitted, %d of them missed; %d refused at once\n", d.Admitted(), d.Missed(), d.Refused)
	}
	if o.overlaps() || r.Overlaps > 0 {
		fmt.Fprintf(t, "overlaps\t%d\tentries while another was inside\n", r.Overlaps)
	}
	if r.LostHolds > 0 {
		fmt.Fprintf(t, "lost\t%d\tholds ended before their participants left\n", r.LostHolds)
	}
	if s.lossy() != "" {
		fmt.Fprintf(t, "dropped\t%d\tmessages lost on the way\n", r.LostMessages)
	}
}

func writePriorities(w io.Writer, r *sim.Result) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "PRIORITY\tENTRIES\tSHARE\tUNSERVED\tMEAN WAIT\tMEDIAN\t99 %\tLONGEST\tVICTIMS\t")
	for i := range r.ByPriority {
		e := &r.ByPriority[i]
		w := e.Waits()
		fmt.Fprintf(t, "%d\t%d\t%.1f %%\t%d\t%s\t%s\t%s\t%s\t%d\t\n", e.Priority, e.Entries, 100*float64(e.Entries)/float64(max(1, r.Entries)), e.Unserved.Count(),
			short(w.Mean()), short(w.Quantile(0.5)), short(w.Quantile(0.99)), short(w.Quantile(1)), e.Victims)
	}
	return t.Flush()
}

func writeNodes(w io.Writer, r *sim.Result) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "NODE\tPRIORITY\tASKED\tENTRIES\tUNSERVED\tMEAN WAIT\tLONGEST\t")
	for i := range r.ByNode {
		n, u := &r.ByNode[i], &r.ByNode[i].Unserved
		mean, longest := "-", "-"
		if count := n.Entries + u.Requests; count > 0 {
			mean, longest = short((n.Waited+u.Waited)/protocol.Duration(count)), short(max(n.Longest, u.Longest))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t\n", printable(n.Node), n.Priority, n.Asked, n.Entries, u.Requests, mean, longest)
	}
	return t.Flush()
}

func spread(t sim.Times) string {
	return fmt.Sprintf("median %s, 99 %% within %s", timeText(t.P50), timeText(t.P99))
}

// censored says that figures of waiting times are lower bounds.
func censored(unserved int) string {
	if unserved == 0 {
		return ""
	}
	return fmt.Sprintf("; %d wait on: it counts them so far", unserved)
}

// short is a time of few digits, in seconds or milliseconds.
func short(d protocol.Duration) string { return timeText(float64(d) / float64(protocol.Second)) }

// timeText is short, of seconds.
func timeText(seconds float64) string {
	if seconds != 0 && seconds < 0.1 {
		return decimal(seconds*1000) + "ms"
	}
	return decimal(seconds) + "s"
}

// decimal has three decimals at most.
func decimal(v float64) string {
	text := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
