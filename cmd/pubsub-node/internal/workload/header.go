package workload

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// header writes, as comments, of what the scenario is made and what is unsure of it.
func (d *description) header(b *bytes.Buffer) {
	requests, ended := 0, 0
	for _, p := range d.all {
		requests += p.seq
		ended += p.seq - len(p.out)
	}
	ended -= d.counts.unended
	comment(b, "", fmt.Sprintf("The workload of lock %q, recorded for %v from %s on: %s of %s, of which %d ended in that time.",
		d.lock, d.span().Round(time.Second), d.recorded.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
		count(requests, "request", "requests"), count(len(d.all), "asker", "askers"), ended))
	comment(b, "", "Latency: "+d.latency+".")
	unsure := d.doubts(requests - ended)
	if len(unsure) == 0 {
		return
	}
	comment(b, "", "What is unsure:")
	for _, text := range unsure {
		comment(b, "- ", text)
	}
}

// doubts are what is unsure. out counts requests whose end was not recorded.
func (d *description) doubts(out int) (all []string) {
	c := &d.counts
	add := func(n int, one, more, what string) {
		if n > 0 {
			all = append(all, count(n, one, more)+" "+what)
		}
	}
	few, once, unheld := d.weak()
	add(few, "asker has", "askers have", fmt.Sprintf("fewer than %d requests: their figures are rough", enough))
	add(once, "asker has", "askers have", "no time between two requests: they ask as often as in this recording, at random")
	add(unheld, "asker has", "askers have", "released nothing: they hold as long as most others")
	add(c.headless, "request", "requests", "began before the recording, or their begin is missing: they are left out")
	add(out, "request", "requests", "had not ended at the end of the recording, or their end is missing: how long they held is left out")
	add(c.missed, "message", "messages", "of the recording came too fast and are missing: what was going on then is left out")
	add(c.missing, "request is", "requests are", "missing by their numbers, which the recording or its source lost: the times around them are left out")
	add(c.malformed, "event", "events", "could not be read")
	add(c.absurd, "time", "times", "cannot be true, because a clock was set, and are left out")
	add(c.lost, "hold", "holds", "were lost: how long they held is left out")
	add(c.withdrawn, "request", "requests", "were withdrawn; here all wait until they enter")
	add(c.denied, "request", "requests", "were denied: events do not tell deadlines, nor who would not wait, so here all wait until they enter")
	if d.recorded.Cut {
		all = append(all, "the recording breaks off: its process was killed")
	}
	if s := d.views[d.lock]; s == nil {
		all = append(all, "the recording does not have the models and the TTL of the lock")
	} else if s.changed {
		all = append(all, "the models were changed during the recording: these are the last ones")
	}
	if d.listed {
		all = append(all, "nobody has declared the resources: these are those that were asked for")
	}
	if n := len(d.renamed); n > 0 {
		all = append(all, count(n, "resource has", "resources have")+" another name here, because a scenario separates them by commas")
	}
	return all
}

// weak counts the askers of which too little is known.
func (d *description) weak() (few, once, unheld int) {
	for _, p := range d.all {
		if p.seq < enough {
			few++
		}
		if p.loadOf == nil {
			once++
		}
		if p.cs == "" {
			unheld++
		}
	}
	return few, once, unheld
}

// uneven reports whether chance does not explain how often an asker asks for which of its
// resources, by the statistic of Pearson's test.
func (a *asker) uneven() bool {
	total, kinds := 0, float64(len(a.asks))
	for _, n := range a.asks {
		total += n
	}
	each, x := float64(total)/kinds, 0.0
	for _, n := range a.asks {
		x += square(float64(n)-each) / each
	}
	return len(a.asks) > 1 && square(x-kinds+1) > square(apart)*2*(kinds-1) && x > kinds-1
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// width is that of the comments.
const width = 92

// comment writes a text as comment lines. Names in it are quoted: they have no line breaks.
func comment(b *bytes.Buffer, mark, text string) {
	line := "# " + mark
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) >= width && strings.TrimLeft(line, "#- ") != "" {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = "# " + strings.Repeat(" ", len(mark))
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
