package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"padme/qosmutex/plan"
	"padme/qosmutex/sim/stats"
)

// write prints a plan for people.
func (f *planFlags) write(w io.Writer, p *plan.Plan) error {
	say := paragraphs{w}
	if len(p.Options) == 0 {
		say.item("choice", "none: all %d choices are refused", refusedNames(p))
		f.writeRefused(say, p)
		return nil
	}
	f.writeChoice(say, p)
	fmt.Fprintln(w)
	if err := f.writeFigures(w, p); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, v := range p.Options[0].Limits {
		say.item("limit", "%s: %s", v.Requirement, verdictText(&v))
	}
	f.writeRefused(say, p)
	for _, c := range p.Flips {
		say.item("changes", "%s: %s, with %s %s instead of %s", c.If, c.Name, c.Figure, valueText(c.Figure, c.Value), valueText(c.Figure, c.Was))
	}
	f.writePractice(say, &p.Options[0].Contender)
	return nil
}

// paragraphs are texts with a name in front, wrapped.
type paragraphs struct{ io.Writer }

const nameWidth = 11

func (p paragraphs) item(name, format string, args ...any) {
	for i, line := range wrap(fmt.Sprintf(format, args...), tableWidth-nameWidth) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(p, "%-*s%s\n", nameWidth, name, line)
	}
}

func (f *planFlags) writeChoice(say paragraphs, p *plan.Plan) {
	best := &p.Options[0]
	say.item("choice", "%s", optionName(best))
	say.item("", "%s", confidenceText(p))
	if best.Seeds < 2 {
		say.item("", "one run of each: the figures below have no intervals")
	}
	if p.Swapped {
		say.item("", "the runs that chose had the runner-up before it; runs with other seeds do not")
	}
	for i := range p.Options[1:] {
		o := &p.Options[1+i]
		if o.Role != "runner-up" {
			say.item(o.Role, "%s", optionName(o))
			continue
		}
		say.item(o.Role, "%s: %s", optionName(o), decisionText(p.Decided))
	}
	if len(p.Tied) > 0 {
		say.item("tied", "not told from the choice by any goal: %s", some(p.Tied))
	}
	if len(best.Same) > 0 {
		say.item("same", "in all runs that they had these measured the same: %s", some(best.Same))
	}
}

func optionName(o *plan.Option) string {
	name := o.Name
	if o.TTL != "" {
		name += ", TTL " + o.TTL
	}
	if o.Today && o.Role != "today" {
		name += ", as today"
	}
	return name
}

// confidenceText says how sure the choice is.
func confidenceText(p *plan.Plan) string {
	text := fmt.Sprintf("%d choices compared in %d runs", p.Compared, p.Runs)
	if p.Decided == nil {
		return text
	}
	if p.Right == 0 {
		return text + "; not sure: more budget may change it"
	}
	return fmt.Sprintf("right with a probability of %.0f %% at least; %s", 100*floorShare(p.Right), text)
}

// floorShare keeps 99.99 % from becoming 100.
func floorShare(v float64) float64 { return float64(int(min(v, 0.99)*100)) / 100 }

func decisionText(d *plan.Decision) string {
	switch {
	case d == nil:
		return "not compared"
	case d.Tie:
		return "a tie: no goal tells the two apart"
	case d.Limit != "":
		return "it misses " + d.Limit
	}
	return fmt.Sprintf("%s %s %s", d.Figure, valueText(d.Figure, d.Difference), worse(d.Figure))
}

// worse says in which direction a figure is.
func worse(figure string) string {
	if g, err := plan.ParseGoal(figure); err == nil && g.Most() {
		return "less"
	}
	return "more"
}

func verdictText(v *plan.Verdict) string {
	met := "met"
	if !v.Met {
		met = "missed"
	}
	if v.Value == (stats.Interval{}) && !v.Sure {
		return "not measured"
	}
	text := met + ", " + valueText(figureOf(v.Requirement), v.Value)
	if !v.Sure {
		text += " (not sure)"
	}
	return text
}

func figureOf(requirement string) string {
	name, _, _ := strings.Cut(requirement, " ")
	return name
}

// writeFigures prints the table.
func (f *planFlags) writeFigures(w io.Writer, p *plan.Plan) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "FIGURE")
	for i := range p.Options {
		fmt.Fprint(t, "\t"+strings.ToUpper(p.Options[i].Role))
	}
	fmt.Fprintln(t)
	row := func(label, name string, of func(*plan.Option) map[string]stats.Interval) {
		fmt.Fprint(t, label)
		for i := range p.Options {
			text := "-"
			if v, known := of(&p.Options[i])[name]; known {
				text = valueText(name, v)
			} else if strings.HasPrefix(name, "recovery.") && p.Options[i].Contender.Algorithm.Static {
				text = "never"
			}
			fmt.Fprint(t, "\t"+text)
		}
		fmt.Fprintln(t)
	}
	for _, name := range shownFigures(p) {
		row(name, name, func(o *plan.Option) map[string]stats.Interval { return o.Figures })
	}
	for _, name := range f.decisive() {
		row(name+" at 80 % load", name, func(o *plan.Option) map[string]stats.Interval { return o.Lighter })
		row(name+" at 120 % load", name, func(o *plan.Option) map[string]stats.Interval { return o.Heavier })
	}
	return t.Flush()
}

// decisive are the figures whose values at other loads are shown: the goals and the limits.
func (f *planFlags) decisive() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if f.minimize+f.maximize == "" {
		add("wait.p99")
	}
	add(f.minimize + f.maximize)
	for _, text := range f.require {
		if at := strings.IndexAny(text, "<>"); at > 0 && !strings.HasPrefix(text, "recovery.") {
			add(strings.TrimSpace(text[:at]))
		}
	}
	return names
}

// mostClasses of priority are shown.
const mostClasses = 4

// shownFigures are the rows of the table: waiting by priority where there are several, and
// what is not zero for all.
func shownFigures(p *plan.Plan) (names []string) {
	known := map[string]bool{}
	classes := map[int64]bool{}
	for i := range p.Options {
		for name, v := range p.Options[i].Figures {
			known[name] = known[name] || v.Mean != 0
			if rest, ok := strings.CutPrefix(name, "wait.p99["); ok {
				n, _ := strconv.ParseInt(strings.TrimSuffix(rest, "]"), 10, 64)
				classes[n] = true
			}
		}
	}
	for _, name := range plan.FigureNames() {
		if name == "wait.mean" || !known[name] && !slices.Contains([]string{"wait.p50", "wait.p99", "wait.max", "never", "fairness", "messages"}, name) {
			continue
		}
		if of := slices.Sorted(maps.Keys(classes)); strings.HasPrefix(name, "wait.") && len(of) > 1 {
			for _, n := range of[:min(len(of), mostClasses)] {
				names = append(names, fmt.Sprintf("%s[%d]", name, n))
			}
			continue
		}
		names = append(names, name)
	}
	return names
}

// valueText is a figure with its interval.
func valueText(figure string, v stats.Interval) string {
	text := count
	switch {
	case plan.IsTime(figure):
		text = spanText
	case figure == "fairness":
		text = decimals(3)
	case figure == "messages" || figure == "upkeep":
		text = decimals(2)
	}
	mean := text(max(v.Mean, -v.Mean))
	if v.Half < 1e-9 {
		return mean
	}
	return mean + " ±" + text(v.Half)
}

func refusedNames(p *plan.Plan) (n int) {
	for i := range p.Refused {
		n += len(p.Refused[i].Names)
	}
	return n
}

func (f *planFlags) writeRefused(say paragraphs, p *plan.Plan) {
	for i := range p.Refused {
		r := &p.Refused[i]
		why := r.Why
		if r.Requirement != "" {
			why = r.Requirement + ": " + why
		}
		say.item("refused", "%s: %s", why, some(withoutFanouts(r.Names)))
	}
}

// withoutFanouts names algorithms and models that are refused with several fan-outs once.
func withoutFanouts(names []string) (short []string) {
	for _, name := range names {
		if name, _, _ = strings.Cut(name, ","); !slices.Contains(short, name) {
			short = append(short, name)
		}
	}
	return short
}

// some are the first of many names.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], "; "), len(names)-most)
}

// writePractice says how to apply a choice.
func (f *planFlags) writePractice(say paragraphs, c *plan.Contender) {
	if c.Algorithm.Static {
		fanout := ""
		if c.Fanout > 0 {
			fanout = fmt.Sprintf(", Fanout: %d", c.Fanout)
		}
		say.item("practice", "Go: papers.Open(p, NAME, papers.Config{Algorithm: a, Members: ids%s}) with a from papers.AlgorithmNamed(%q). The members are fixed, and the lock dies with one that others need.", fanout, c.Algorithm.Name)
		return
	}
	command, options := "pubsub-node lock create NAME --models "+c.Models.String(), fmt.Sprintf("qosmutex.WithModels(m) with m from qosmutex.ParseModels(%q)", plan.Initials(c.Models))
	if ttl := time.Duration(f.spec.ttlOf(c)); ttl > 0 {
		command += " --ttl " + ttl.String()
		options += fmt.Sprintf(", qosmutex.WithTiming(qosmutex.LAN().WithTTL(%d*time.Millisecond))", ttl.Milliseconds())
	}
	say.item("practice", "%s", command)
	if c.Fanout > 0 {
		options += fmt.Sprintf(", qosmutex.WithFanout(%d)", c.Fanout)
	}
	say.item("", "Go: %s", options)
	if slices.ContainsFunc(f.require, func(text string) bool { return strings.Contains(text, "survive=") && strings.Contains(text, "root") }) {
		say.item("", "The root's death is survived if other candidates have the same register, and that outlives it: 3 voters (pubsub-node serve --voters) or etcd. The simulator's register never fails.")
	}
}
