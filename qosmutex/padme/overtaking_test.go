package padme

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// watcher counts in every queue of a world how many requests overtake each one that
// waits: those that came to the queue after it and are served before it. It looks only
// at which requests wait and which are served, and at the models in force.
type watcher struct {
	of     map[*Machine]*watched
	limits int // requests that were overtaken as often as the bound allows
	fail   func(format string, args ...any)
}

// watched is what the watcher knows of one machine's queues.
type watched struct {
	priority protocol.Priority
	requests map[protocol.RequestID]*waiter
	arrivals int
	steps    int
}

type waiter struct {
	arrival, overtaken, bound int
	sent, reached             int // in which step it went up, and was overtaken as often as it may be
}

func watch(w *world) *watcher {
	v := &watcher{of: map[*Machine]*watched{}, fail: w.fail}
	w.stepped = func(n *node) { v.look(n.machine) }
	return v
}

func (v *watcher) look(m *Machine) {
	s := v.of[m]
	if s == nil || s.priority != m.settings.Models.Priority {
		s = &watched{priority: m.settings.Models.Priority, requests: map[protocol.RequestID]*waiter{}}
		v.of[m] = s
		s.arrivals = 1 // of all that wait by now
	} else {
		s.arrivals++
	}
	if s.priority != protocol.Fair && s.priority != protocol.Aging {
		return
	}
	for id := range s.requests {
		if e := m.requests.get(id); e == nil {
			delete(s.requests, id)
		}
	}
	s.steps++
	live := slices.Clone(m.requests)
	for _, e := range live {
		if r := s.requests[e.id]; r != nil && e.sent && r.sent == 0 {
			r.sent = s.steps
		}
	}
	for _, e := range live {
		if by := s.requests[e.id]; by != nil && e.state != waiting && by.arrival > 0 {
			v.served(m, s, live, e, by)
			by.arrival = -by.arrival // served once; it may have to wait again
		}
	}
	for _, e := range live {
		switch by := s.requests[e.id]; {
		case e.state != waiting || e.try:
		case by == nil:
			s.requests[e.id] = &waiter{arrival: s.arrivals, bound: v.bound(m, s, live, e)}
		case by.arrival < 0:
			by.arrival = -by.arrival
		}
	}
}

// bound is how often the newcomer e may be overtaken.
func (v *watcher) bound(m *Machine, s *watched, live []*entry, e *entry) int {
	if s.priority == protocol.Aging {
		return protocol.AgingBound
	}
	others := 0
	for _, o := range live {
		if o != e && !o.try && o.state == waiting && compete(m, o.q.resource, e.q.resource) {
			others++
		}
	}
	return protocol.FairBound(others)
}

func (v *watcher) served(m *Machine, s *watched, live []*entry, e *entry, by *waiter) {
	resource := e.q.resource
	for _, r := range m.resources {
		if t := &r.tok; (t.phase == below || t.phase == using) && t.target == e.id {
			resource = r.q.resource // of a request for any
		}
	}
	for _, o := range live {
		w := s.requests[o.id]
		if w == nil || o.state != waiting || w.arrival < 0 || w.arrival >= by.arrival || !compete(m, resource, o.q.resource) {
			continue
		}
		if o.from != nil && !o.named {
			continue // its way is not known
		}
		if m.role != protocol.Root && (o.sent || m.climbs() || w.overtaken == w.bound && by.sent <= w.reached) {
			continue // those above decide, also about those that went up before
		}
		w.overtaken++
		if w.overtaken == w.bound {
			v.limits++
			w.reached = s.steps
		}
		if w.overtaken > w.bound {
			v.fail("%v of %v is overtaken at %v by %v, the %d. time; the bound is %d", o.id.Clock, o.id.Node.ID, m.self.ID, e.id, w.overtaken, w.bound)
		}
	}
}

// compete reports whether requests for a and for b may wait for the same token.
func compete(m *Machine, a, b string) bool {
	return a == b || a == protocol.Any && m.declared(b) || b == protocol.Any && m.declared(a)
}

// adversary plays against those who wait. It is as good as its seed.
type adversary struct {
	*world
	random *rand.Rand
	script []string
	watch  *watcher
}

func (a *adversary) chance(of int) bool { return a.random.IntN(of) == 0 }

func (a *adversary) line(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	a.script = append(a.script, line)
	if err := cmp.Or(a.do(line), a.failure); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(a.script, "\n"))
	}
}

// active lists those who may ask.
func (a *adversary) active() (all []*node) {
	for _, name := range a.order {
		if m := a.nodes[name].machine; m.role != protocol.Departed && !m.departing {
			all = append(all, a.nodes[name])
		}
	}
	return all
}

func (a *adversary) one() *node {
	all := a.active()
	return all[a.random.IntN(len(all))]
}

func (a *adversary) resource() string {
	if a.chance(4) {
		return protocol.Any
	}
	return a.settings.Resources[a.random.IntN(len(a.settings.Resources))]
}

// leave lets everybody leave who is inside now, but not who enters then.
func (a *adversary) leave(t *testing.T) {
	var lines []string
	for _, n := range a.active() {
		for _, r := range a.settings.Resources {
			if _, ok := n.inside[r]; ok {
				lines = append(lines, fmt.Sprintf("leave %s %s", n.name, r))
			}
		}
	}
	for _, line := range lines {
		a.line(t, "%s", line)
	}
}

// drive lets n ask in vain, which advances its clock and those above it.
func (a *adversary) drive(t *testing.T, n *node, times int) {
	for range times {
		a.line(t, "request %s x try", n.name)
		if _, ok := n.inside["x"]; ok {
			a.line(t, "leave %s x", n.name)
		}
	}
}

// flood lets those ask again and again who come before the victims, each again before it
// leaves.
func (a *adversary) flood(t *testing.T, victims map[*node]bool, rounds int) {
	for range rounds {
		for _, n := range a.active() {
			if m := n.machine; !victims[n] && len(n.refs) < 2 && m.clock < a.ahead(victims) && !m.departing {
				a.line(t, "request %s %s p%d", n.name, a.resource(), a.random.IntN(3))
				a.leave(t)
			}
		}
	}
}

// ahead is the lowest clock of the victims' requests that wait.
func (a *adversary) ahead(victims map[*node]bool) uint64 {
	lowest := uint64(math.MaxUint64)
	for n := range victims {
		for _, e := range n.machine.own {
			if e.state == waiting {
				lowest = min(lowest, e.id.Clock)
			}
		}
	}
	return lowest
}

// disturb changes the models, or who takes part.
func (a *adversary) disturb(t *testing.T, models func() string) {
	switch a.random.IntN(5) {
	case 0:
		a.line(t, "models %s %s", a.one().name, models())
	case 1:
		if len(a.order) < 12 {
			a.line(t, "join %s p%d", letter(len(a.order)), a.random.IntN(4))
		}
	case 2:
		if n := a.one(); len(a.active()) > 4 && (n.machine.role != protocol.Root || len(n.machine.children) > 0) {
			a.line(t, "depart %s", n.name)
			a.line(t, "advance 1s")
		}
	default:
		a.line(t, "advance %dms", 100*a.random.IntN(20))
	}
}

// play is one run: victims whose clocks are ahead wait while others flood the topic.
func (a *adversary) play(t *testing.T) {
	request := []string{"forward", "replace"}[a.random.IntN(2)]
	models := func() string {
		return []string{"level", "fair", "fair", "aging"}[a.random.IntN(4)] + "-" + request + "-forward-" + []string{"forward", "forward", "direct"}[a.random.IntN(3)]
	}
	resources := []string{"x", "x", "x,y"}[a.random.IntN(3)]
	a.line(t, "tree A models=%s resources=%s fanout=%d", models(), resources, 2+a.random.IntN(3))
	for i := range 3 + a.random.IntN(5) {
		a.line(t, "join %s p%d", letter(1+i), a.random.IntN(4))
	}
	for range 4 {
		victims := map[*node]bool{}
		for range 1 + a.random.IntN(3) {
			n := a.one()
			victims[n] = true
			a.drive(t, n, a.random.IntN(60))
		}
		if a.chance(3) {
			a.disturb(t, models)
		}
		holder := a.one()
		a.line(t, "request %s x", holder.name)
		for _, name := range a.order {
			if n := a.nodes[name]; victims[n] && n != holder && n.machine.role != protocol.Departed && !n.machine.departing {
				for range 1 + a.random.IntN(2) {
					a.line(t, "request %s %s p%d", name, a.resource(), 10*a.random.IntN(4))
				}
			}
		}
		a.flood(t, victims, 1+a.random.IntN(24))
		a.disturb(t, models)
		a.flood(t, victims, 1+a.random.IntN(24))
	}
	for i := 0; i < 1000 && slices.ContainsFunc(a.active(), func(n *node) bool { return len(n.refs) > 0 }); i++ {
		a.leave(t)
		a.advance(10*protocol.Millisecond, true)
	}
	a.serve(10 * protocol.Second)
	if a.failure != nil {
		t.Fatalf("%v\n%s", a.failure, strings.Join(a.script, "\n"))
	}
}

// TestOvertakingIsBounded lets an adversary do what sets clocks and priorities against
// a waiting request: others ask all the time or try in vain, models change, members join,
// leave and idle, and the root goes. In no queue may a request be overtaken more often
// than Fair and Aging promise.
func TestOvertakingIsBounded(t *testing.T) {
	limits := 0
	for seed := range uint64(120) {
		w := newWorld()
		w.quiet = true
		a := &adversary{world: w, random: rand.New(rand.NewPCG(seed, 11)), watch: watch(w)}
		a.play(t)
		limits += a.watch.limits
	}
	if limits < 100 {
		t.Errorf("a request was overtaken as often as the bound allows %d times: the adversary is too weak", limits)
	}
	t.Logf("%d requests were overtaken as often as the bound allows", limits)
}

// TestWhoIsAheadIsOvertakenAsOftenAsFairAllows: a clock that was driven far ahead puts
// a request behind all others, again and again, and FairBound ends that. Under Replace
// it is B that keeps C's request back below it, and lets it go up then.
func TestWhoIsAheadIsOvertakenAsOftenAsFairAllows(t *testing.T) {
	want := protocol.FairBound(1)
	for _, c := range []struct{ tree, request string }{
		{"A(B C D E)", "forward"}, {"A(B C D E)", "replace"}, {"A(B(C D E))", "forward"}, {"A(B(C D E))", "replace"},
	} {
		w := newWorld()
		w.quiet = true
		watch(w)
		play(t, w, fmt.Sprintf("tree %s models=fair-%s-forward-forward fanout=4", c.tree, c.request), "request E")
		for range 100 {
			play(t, w, "request C try")
		}
		play(t, w, "request D", "request C")
		overtaken := -1 // D came before
		for {
			holder := "D"
			if _, ok := w.nodes["E"].inside["x"]; ok {
				holder = "E"
			}
			if len(w.nodes[holder].refs) < 2 {
				play(t, w, "request "+holder)
			}
			play(t, w, "leave "+holder)
			if _, ok := w.nodes["C"].inside["x"]; ok {
				break
			}
			if overtaken++; overtaken > 100 {
				t.Fatalf("%s, %s: C was overtaken %d times", c.tree, c.request, overtaken)
			}
		}
		if overtaken != want {
			t.Errorf("%s, %s: C was overtaken %d times, want %d", c.tree, c.request, overtaken, want)
		}
	}
}
