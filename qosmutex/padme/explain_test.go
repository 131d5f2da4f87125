package padme

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// decided checks what a root tells of its decisions, and notes it. Every world does so.
func (w *world) decided(n *node) {
	for i := range n.out.Decisions {
		d := &n.out.Decisions[i]
		if w.explains {
			w.log("%s decides %s", n.name, decisionText(d))
		}
		if err := unsound(d, n.machine.self); err != nil {
			w.fail("%s decides %s: %v", n.name, decisionText(d), err)
		}
		w.decisions[d.Grant] = *d
	}
}

// explained checks that an entry is one that the decision about its grant allows.
func (w *world) explained(n *node, g *protocol.Granted) {
	if g.How == protocol.HowUnknown {
		w.fail("%s enters %s, and nobody knows how", n.name, g.Resource)
	}
	d, ok := w.decisions[g.Grant]
	if !ok { // under Direct the root hears later
		return
	}
	if g.Fence < d.Fences.Next || g.Fence >= d.Fences.End {
		w.fail("%s enters %s with fence %d, but decided was %s", n.name, g.Resource, g.Fence, decisionText(&d))
	}
	of := d.Chosen.ID
	switch g.How {
	case protocol.HowPassing:
		ok = n.machine.uses(protocol.Use) || w.settings.Models != n.machine.settings.Models
	case protocol.HowResumed:
		ok = of.Node.ID == g.ID.Node.ID || n.machine.old(g.Grant) // the root of that term may have given it for another one
	case protocol.HowRetained:
		ok = d.Retained && of.Node == g.ID.Node && of != g.ID
	default:
		ok = of == g.ID
	}
	if !ok {
		w.fail("%s enters %s for %v (%v), but decided was %s", n.name, g.Resource, g.ID, g.How, decisionText(&d))
	}
}

func decisionText(d *protocol.Decision) string {
	var b strings.Builder
	chosen := d.Chosen
	if d.Place > 0 {
		chosen = d.Queue[d.Place-1]
	}
	fmt.Fprintf(&b, "%s grant %d fences %d–%d (%v): %s is %d of %d", d.Resource, d.Grant.Number, d.Fences.Next, d.Fences.End-1, d.How,
		waiterText(&chosen, &d.Models), d.Place, d.Waiting)
	if d.Retained {
		b.WriteString(" retained")
	}
	if d.Outdated {
		b.WriteString(" outdated")
	}
	for i := range d.Queue {
		if i != d.Place-1 {
			fmt.Fprintf(&b, "; %s", waiterText(&d.Queue[i], &d.Models))
		}
	}
	return b.String()
}

func waiterText(w *protocol.Waiter, models *protocol.Models) string {
	s := fmt.Sprintf("%s,p%d,c%d", w.ID.Node.ID, w.Priority, w.ID.Clock)
	if models.Priority == protocol.Aging {
		s += fmt.Sprintf(",l%d", w.Level)
	}
	if models.Priority == protocol.Fair || models.Priority == protocol.Aging {
		s += fmt.Sprintf(" owed %d", w.Patience)
	}
	if w.Any {
		s += " any"
	}
	if w.Passed {
		s += " passed over"
	}
	if w.By != protocol.ByNothing {
		s += " by " + w.By.String()
	}
	return s
}

// unsound says what of a decision cannot be.
func unsound(d *protocol.Decision, root protocol.Node) error {
	if len(d.Queue) > protocol.MaxShown || len(d.Queue) > d.Waiting {
		return fmt.Errorf("%d of %d are shown", len(d.Queue), d.Waiting)
	}
	for i := range d.Queue {
		var by protocol.Criterion
		if i > 0 {
			var err error
			if by, err = decisive(&d.Models, &d.Queue[i-1], &d.Queue[i]); err != nil {
				return err
			}
		}
		if by != d.Queue[i].By {
			return fmt.Errorf("%s: by %v, not %v", waiterText(&d.Queue[i], &d.Models), by, d.Queue[i].By)
		}
	}
	place := 1 + slices.IndexFunc(d.Queue, func(w protocol.Waiter) bool { return w.ID == d.Chosen.ID })
	switch d.How {
	case protocol.HowTurn, protocol.HowRoot:
		for i := range max(place-1, 0) {
			if !d.Queue[i].Passed {
				return fmt.Errorf("%s was before it", waiterText(&d.Queue[i], &d.Models))
			}
		}
		if d.Chosen.Passed || place == 0 && len(d.Queue) < protocol.MaxShown || (d.Chosen.ID.Node == root) != (d.How == protocol.HowRoot) {
			return fmt.Errorf("it was not its turn")
		}
	case protocol.HowPassing, protocol.HowResumed:
		if d.Chosen.ID.Node != root {
			return fmt.Errorf("it is not of the root")
		}
	case protocol.HowDirect:
	default:
		return fmt.Errorf("no root gives a token so")
	}
	if d.Place != place {
		return fmt.Errorf("it is at place %d", place)
	}
	return nil
}

// decisive is the first part of the key by which a comes before b, worked out from what is
// shown of them.
func decisive(models *protocol.Models, a, b *protocol.Waiter) (protocol.Criterion, error) {
	model := models.Priority
	never := func(t protocol.Time) protocol.Time {
		if t == 0 {
			return protocol.Never
		}
		return t
	}
	keys := map[protocol.Criterion]int{
		protocol.ByPriority: cmp.Compare(a.Priority, b.Priority),
		protocol.ByClock:    cmp.Compare(a.Turn, b.Turn),
		protocol.ByPatience: cmp.Compare(min(a.Patience, 1), min(b.Patience, 1)),
		protocol.ByArrival:  cmp.Compare(a.Arrival, b.Arrival),
		protocol.ByLevel:    cmp.Compare(a.Level, b.Level),
		protocol.ByDeadline: cmp.Compare(never(a.Deadline), never(b.Deadline)),
	}
	order := map[protocol.Priority][]protocol.Criterion{
		protocol.Level:    {protocol.ByPriority, protocol.ByArrival},
		protocol.Fair:     {protocol.ByClock, protocol.ByPriority, protocol.ByArrival},
		protocol.Aging:    {protocol.ByLevel, protocol.ByArrival},
		protocol.Deadline: {protocol.ByDeadline, protocol.ByArrival},
	}[model]
	if model == protocol.Level && models.Request == protocol.RequestReplace && models.Release != protocol.Direct {
		order = []protocol.Criterion{protocol.ByPriority, protocol.ByClock, protocol.ByArrival}
	}
	if model == protocol.Aging && a.Any != b.Any { // levels are compared among both queues, and shown of one
		return b.By, nil
	}
	if model == protocol.Fair && (a.Exhausted || b.Exhausted) {
		order = []protocol.Criterion{protocol.ByPatience, protocol.ByArrival}
	}
	for _, c := range order {
		switch {
		case keys[c] < 0:
			return c, nil
		case keys[c] > 0:
			return c, fmt.Errorf("%s is behind what it comes before", waiterText(a, models))
		}
	}
	return protocol.ByNothing, fmt.Errorf("%v waits twice", a.ID)
}

// Nobody is told of decisions without having asked.
func TestNoDecisionsUnlessWanted(t *testing.T) {
	for _, want := range []bool{false, true} {
		c := newCycle(t, protocol.Models{})
		c.outs[0].Explain = want
		c.run()
		decisions := 0
		c.decided = func(list []protocol.Decision) { decisions += len(list) }
		c.run()
		if decisions > 0 != want {
			t.Errorf("wanted: %v, %d decisions", want, decisions)
		}
	}
}

// Who decides names no more than MaxShown, counts all, and tells of one that is chosen
// behind those shown.
func TestDecisionsAreBounded(t *testing.T) {
	const waiting = 40
	w := newWorld()
	w.quiet = true
	root := w.add("A", 0, "", true)
	w.settle()
	var out *protocol.Decision
	for range waiting {
		if err := w.acquire(root, &protocol.Input{Kind: protocol.Acquire, Resource: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	w.stepped = func(n *node) {
		for i := range n.out.Decisions {
			d := n.out.Decisions[i]
			out = &d
		}
	}
	if err := w.end(root, "leave", "x"); err != nil {
		t.Fatal(err)
	}
	if out == nil || len(out.Queue) != protocol.MaxShown || out.Waiting != waiting-1 || out.Place != 1 {
		t.Errorf("decided %+v", out)
	}
	w.sound(t)
}
