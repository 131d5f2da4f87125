package sim

import (
	"fmt"
	"math/rand/v2"

	"padme/qosmutex/protocol"
)

// Workload is what one participant's application does: ask for a resource, stay
// inside for Hold, leave. The zero Workload does nothing.
//
// In a closed loop, which is the rule, it asks again Think after it has left, or
// was refused, or gave up: it never has more than one request. With Every set
// arrivals are open: it asks every so often whatever became of earlier requests,
// and each of them is a request of its own that waits for its turn.
//
// What is drawn for the requests of a participant comes from a source of its own,
// which the seed, its place in Scenario.Participants and its incarnation decide: its
// k-th request is the same whatever the algorithm, the network and the others do.
type Workload struct {
	Resources []string     // one is drawn for each request; none: the participant never asks
	Hold      Distribution // also told to the machine beforehand, as Input.Hold
	Think     Distribution
	Every     Distribution // from one request to the next; Exponential: a Poisson process
	// Settled lets the first request of a closed loop come after Think. Else all
	// participants ask at once when the workload starts, which is the longest wait of many
	// runs.
	Settled bool

	// Priorities, if any: one is drawn for each request, in place of the
	// participant's.
	Priorities []int64
	// Deadlines, if any: one is drawn for each request, as the time within which it
	// must be inside (Input.Within).
	Deadlines []protocol.Duration
	// GiveUp withdraws a request that still waits when its deadline passes, for
	// machines that do not know deadlines (the SLA paper, §IV-C).
	GiveUp bool
}

// open reports whether requests come without regard to those before.
func (w *Workload) open() bool { return w.Every != Distribution{} }

func (w *Workload) validate(who string) error {
	what := "the workload of " + who
	for _, d := range []*Distribution{&w.Hold, &w.Think, &w.Every} {
		if err := d.validate(what); err != nil {
			return err
		}
	}
	for _, d := range w.Deadlines {
		if d <= 0 || d > longest {
			return fmt.Errorf("%w: %s has a deadline of %s: it must be positive", ErrScenario, what, seconds(d))
		}
	}
	if w.GiveUp && len(w.Deadlines) == 0 {
		return fmt.Errorf("%w: %s gives up, but has no Deadlines", ErrScenario, what)
	}
	if w.open() && w.Think != (Distribution{}) {
		return fmt.Errorf("%w: %s has both Every and Think: arrivals are open or a closed loop", ErrScenario, what)
	}
	if len(w.Resources) > 0 && (w.open() && w.Every.greatest() == 0 || !w.open() && w.Hold.greatest()+w.Think.greatest() == 0) {
		return fmt.Errorf("%w: %s takes no time, so the run would not end: give Hold and Think, or Every", ErrScenario, what)
	}
	return nil
}

// workloadOf is the participant's own, else the scenario's.
func (s *Sim) workloadOf(n *node) *Workload {
	if n.Workload != nil {
		return n.Workload
	}
	return &s.scenario.Workload
}

// SetWorkloadOf gives one participant a workload of its own, from its next request on;
// one that does not run, or has departed, from its next start on.
func (s *Sim) SetWorkloadOf(id string, w Workload) {
	i, ok := s.member(id, "gets a workload")
	if !ok {
		return
	}
	if err := w.validate("the new workload of " + id); err != nil {
		s.fail(err)
		return
	}
	n := &s.nodes[i]
	runs := n.machine != nil && n.workload == s.workloadOf(n)
	if n.Workload = &w; !runs {
		return
	}
	n.workload = &w
	for slot := range s.calls {
		if c := &s.calls[slot]; c.node == i && c.ref != 0 && !c.over && c.again {
			return // it asks again after that
		}
	}
	if n.asks == 0 {
		s.startWorkload(i, max(s.scenario.Start, n.Joins, s.now))
	}
}

// SetWorkload changes what everybody without a workload of their own asks for, from
// their next request on. The zero Workload ends it: requests that wait still do.
func (s *Sim) SetWorkload(w Workload) {
	if err := w.validate("the new workload"); err != nil {
		s.fail(err)
		return
	}
	s.scenario.Workload = w
	busy := make([]bool, len(s.nodes)) // has a request after whose end it asks again
	for i := range s.calls {
		if c := &s.calls[i]; c.ref != 0 && !c.over && c.again {
			busy[c.node] = true
		}
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.workload == &s.scenario.Workload && n.asks == 0 && !busy[i] {
			s.startWorkload(int32(i), max(s.scenario.Start, n.Joins, s.now))
		}
	}
}

// ask makes the next request of a participant's workload.
func (s *Sim) ask(e event) {
	i := e.node
	n := &s.nodes[i]
	if n.machine == nil || e.slot != int32(n.incarnation) || s.early(e) { // nil: it has crashed since
		return
	}
	n.asks--
	w := n.workload
	if s.now >= s.end() || len(w.Resources) == 0 { // none: it departed while it was thinking
		return
	}
	if s.askedAt != s.now {
		s.askedAt, s.asked = s.now, 0
	}
	if s.asked++; s.asked > maxIdle*len(s.nodes) {
		s.failf("%s asks again and again at %s, because it is refused at once: give its workload Think", n.ID, seconds(s.now))
		return
	}
	r := w.next(n.random())
	if w.open() {
		s.askAt(i, s.now+w.gap(n.random()))
	}
	s.request(i, &r, !w.open())
}

// askAt plans the next request of a workload.
func (s *Sim) askAt(i int32, t protocol.Time) {
	n := &s.nodes[i]
	n.asks++
	s.schedule(event{at: t, kind: eventRequest, node: i, slot: int32(n.incarnation)})
}

// startWorkload plans the first request of a participant whose workload starts at t.
func (s *Sim) startWorkload(i int32, t protocol.Time) {
	w := s.nodes[i].workload
	if len(w.Resources) == 0 {
		return
	}
	s.askAt(i, t+w.first(s.nodes[i].random()))
}

// again plans the next request of a closed loop whose last one is over.
func (s *Sim) again(c *call) {
	if n := &s.nodes[c.node]; c.again {
		s.askAt(c.node, s.now+n.workload.gap(n.random()))
	}
}

// random is what the requests of n are drawn from.
func (n *node) random() *rand.Rand { return rand.New(&n.source) }
