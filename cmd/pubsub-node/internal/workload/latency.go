package workload

import (
	"padme/qosmutex"
)

// calm follows a lock from an end to the next request and its grant. If nothing else
// happens in between, nobody held or waited, so the request had to wait for messages only.
type calm struct {
	free   bool // what happened last is an end
	since  int64
	by     *asker // of the request that was made then; else nil
	number uint64
}

// settled is how many milliseconds an end must be earlier than a request: participants
// publish their events with a delay of up to 70 ms, so earlier ones may be in a wrong order.
const settled = 100

func (c calm) request(a *asker, number uint64, now int64) calm {
	if !c.free || now-c.since < settled {
		return calm{}
	}
	return calm{by: a, number: number}
}

// delays are what is known of the time that a message takes.
type delays struct {
	alone    sample  // waits of requests that met nobody: two messages
	shortest float64 // of all waits for messages; 0: there is none
}

// granted notes how long a request has waited.
func (w *Workload) granted(a *asker, r *request, e *qosmutex.Event) {
	before := w.calm
	w.calm = calm{}
	if r.granted {
		return
	}
	r.granted = true
	switch {
	case !w.credible(e.Waited, w.now-r.arrived):
		w.counts.absurd++
		return
	case e.How != "" && e.How != "turn" && e.How != "direct", e.Waited == 0:
		return // no message went to the root and back
	case w.delays.shortest == 0 || e.Waited < w.delays.shortest:
		w.delays.shortest = e.Waited
	}
	if before.by == a && before.number == r.number && e.How != "direct" {
		w.delays.alone.add(e.Waited)
	}
}
