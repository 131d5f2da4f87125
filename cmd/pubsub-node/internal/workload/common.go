package workload

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

// texts are the values of a profile as they are written, lists with commas. An empty one is
// not known, or needs no saying.
type texts struct {
	priority, draws, asksFor, cs, load, span string
}

func (d *description) texts(p *profile) *texts {
	var drawn []string
	for _, n := range p.priorities {
		drawn = append(drawn, strconv.FormatInt(n, 10))
	}
	return &texts{
		priority: strconv.FormatInt(p.priority, 10), draws: strings.Join(drawn, ","), asksFor: d.list(p.asksFor),
		cs: p.cs, load: p.load, span: p.span,
	}
}

// common has the values that most askers have.
func (d *description) common() *texts {
	var all []*texts
	for _, p := range d.all {
		all = append(all, d.texts(p))
	}
	c := &texts{
		priority: most(all, func(t *texts) string { return t.priority }),
		asksFor:  most(all, func(t *texts) string { return t.asksFor }),
		cs:       most(all, func(t *texts) string { return t.cs }),
	}
	c.load, c.span, _ = strings.Cut(most(all, func(t *texts) string { return t.load + " " + t.span }), " ")
	if !slices.ContainsFunc(all, func(t *texts) bool { return t.draws != all[0].draws }) {
		c.draws = all[0].draws // else each says its own, for whoever has none cannot take it back
	}
	return c
}

// most is the value that most have, of those the first; empty ones do not count.
func most(all []*texts, of func(*texts) string) (value string) {
	times := map[string]int{"": -1}
	for _, t := range all {
		if v := of(t); v != "" {
			times[v]++
		}
	}
	for _, t := range all {
		if v := of(t); times[v] > times[value] {
			value = v
		}
	}
	return value
}

// resourceNames lists the resources that are declared, or else those that were asked for if
// there are several.
func (d *description) resourceNames() {
	var asked, declared []string
	for _, p := range d.all {
		asked = append(asked, p.asksFor...)
	}
	if s := d.views[d.lock]; s != nil && s.declared {
		declared = s.resources
	}
	all := slices.DeleteFunc(slices.Concat(asked, declared), func(name string) bool { return name == qosmutex.Any || name == "" })
	slices.Sort(all)
	all = slices.Compact(all)
	d.renamed = map[string]string{}
	for _, name := range all {
		if writable(name) {
			continue
		}
		for n := 1; d.renamed[name] == "" || slices.Contains(all, d.renamed[name]); n++ {
			d.renamed[name] = "resource-" + strconv.Itoa(len(d.renamed)+n)
		}
		all = append(all, d.renamed[name])
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !writable(name) })
	slices.Sort(all)
	if d.listed = len(declared) == 0 && len(all) > 1; d.listed || len(declared) > 0 {
		d.resourced = all
		d.root.list("resources", strings.Join(all, ","))
	}
}

// everything is what whoever asks for no resource in particular asks for.
func (d *description) everything() string { return strings.Join(d.resourced, ",") }

// list is a list of resources as a scenario has it; empty if the only one need not be named.
func (d *description) list(names []string) string {
	var all []string
	for _, name := range names {
		if other := d.renamed[name]; other != "" {
			name = other
		}
		if name == qosmutex.Any || slices.Contains(d.resourced, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// leastTTL and the protocol's greatest bound what is believed of a view.
const leastTTL = 0.1

// settings says what the root published.
func (d *description) settings() {
	s := d.views[d.lock]
	if s == nil {
		return
	}
	d.root.plain("models", s.models)
	if s.ttl >= leastTTL && s.ttl <= float64(protocol.MaxTTL/protocol.Second) {
		d.root.plain("ttl", time.Duration(s.ttl*float64(time.Second)).Round(time.Millisecond).String())
	}
}

// guessed is the time of a message where no request shows it.
const guessed = 0.002

// messages says how long a message takes, and of what that is made.
func (d *description) messages() {
	s, wait := &d.delays.alone, d.delays.shortest
	switch {
	case s.n > 0:
		// Two messages vary as the square root of two, and take twice as long.
		const two = 1.4142135623730951
		d.latency = "half the wait of " + count(s.n, "request", "requests") + " that met no other"
		d.root.plain("latency", distribution(s.mean/2, s.cv()*two))
	case wait > 0:
		d.latency = "half of the shortest wait, which is an upper bound: each request met another one"
		d.root.plain("latency", span(wait/2))
	default:
		d.latency = `a guess, since all requests were made at the root itself; write half of a round trip of "pubsub-node perf ping"`
		d.root.plain("latency", span(guessed))
	}
}
