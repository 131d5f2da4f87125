package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// Candidate is the machine of a participant that can be the root: see package
// candidate.
type Candidate interface {
	protocol.Machine
	Request() lease.Request
	Answer(now protocol.Time, a *lease.Answer, out *protocol.Output) error
	ActsUntil() protocol.Time
}

// Register says how the register of the topic is reached. It takes each request in one
// step, some time between the question and the answer. What is not answered within an
// eighth of the lease counts as unknown.
type Register struct {
	Latency    Distribution      // of a request, and again of the answer
	Lost       float64           // probability that a request is lost
	Unanswered float64           // that it is taken and the answer is lost
	Late       float64           // that a write is taken only some time after it was given up
	Lateness   protocol.Duration // how much later at most
}

func (r *Register) validate() error {
	for _, p := range []float64{r.Lost, r.Unanswered, r.Late} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%w: what happens to a request to the register is a probability; got %v", ErrScenario, p)
		}
	}
	if r.Lateness < 0 || r.Lateness > longest {
		return fmt.Errorf("%w: a lateness of %s is negative or above %s", ErrScenario, seconds(r.Lateness), seconds(longest))
	}
	return r.Latency.validate("the register")
}

// store is one register: one key, with a record.
type store struct {
	entry  lease.Entry   // which has its domain
	synced lease.Entry   // what is left of it after a restart
	shut   protocol.Time // it makes no write before
	born   protocol.Time // when it was new
	closed bool
}

// registry is all registers. A correct topic has one.
type registry struct {
	all     []store
	domains uint64  // that there were
	asked   []asked // questions to any of them
	free    []int32 // slots in asked
}

// open adds registers until there are n.
func (g *registry) open(n int) {
	for len(g.all) < n {
		g.all = append(g.all, store{born: -protocol.MaxTTL})
		g.replace(len(g.all) - 1)
	}
}

// replace gives register i a domain that there never was.
func (g *registry) replace(i int) {
	g.domains++
	r := &g.all[i]
	r.entry = lease.Entry{}
	binary.BigEndian.PutUint64(r.entry.Version.Domain[:], g.domains)
	r.synced = r.entry
}

// registerOf is the one that a participant was given.
func (s *Sim) registerOf(n *node) *store {
	return &s.registry.all[n.Register]
}

// asked is a request to the register, from when it is asked until nothing more comes of it.
type asked struct {
	register int
	machine  Candidate // that asked
	kind     lease.RequestKind
	write    lease.Write
	answer   lease.Answer
	due      protocol.Time // when the register is slow if it has not answered
	events   int8          // to come for this slot
	answered bool
	lost     bool // nobody hears the answer
	void     bool // the register has ended since
}

// Wall is what the wall clock shows at the beginning of a simulation, in microseconds
// since 1970: 2026-06-01.
const Wall = 1_780_272_000 * 1_000_000

// candidateOf makes the machine of a participant that can be the root.
func (s *Sim) candidateOf(n *node, cfg protocol.Config) (Candidate, error) {
	cfg.Candidate = true
	listen, first := protocol.Duration(0), uint64(0)
	if s.scenario.Registers > 1 { // else nobody else can be heard of
		listen, first = cfg.Timing.JoinWait, Wall+uint64(s.now/protocol.Microsecond)
	}
	return s.scenario.NewCandidate(cfg, lease.Config{
		Listen: listen, FirstTerm: first, Create: n.Creates, Place: n.Place, Wall: Wall + uint64(s.now/protocol.Microsecond), Seed: mix(cfg.Seed, 1),
	})
}

// consult asks the register what the machine of node i wants to know.
func (s *Sim) consult(i int32) {
	n := &s.nodes[i]
	r := n.candidate.Request()
	if r.Kind == lease.NoRequest {
		return
	}
	g, how := &s.registry, &s.scenario.Register
	slot := int32(len(g.asked))
	if k := len(g.free); k > 0 {
		slot = g.free[k-1]
		g.free = g.free[:k-1]
	} else {
		g.asked = append(g.asked, asked{})
	}
	a := &g.asked[slot]
	*a = asked{register: n.Register, machine: n.candidate, kind: r.Kind, write: r.Write, answer: lease.Answer{Outcome: lease.Unknown}}
	patience := s.patience(n)
	a.due = s.now + patience
	if n.slow {
		patience *= 2
	}
	if n.away || s.registerOf(n).closed {
		if s.random.IntN(2) == 0 { // it is told so
			a.answer.Outcome = lease.Failed
			patience /= 2
		}
		s.expect(i, slot, eventGiveUpAsking, patience)
		return
	}
	s.expect(i, slot, eventGiveUpAsking, patience)
	there, fate := how.Latency.draw(s.random), s.random.Float64()
	switch {
	case fate < how.Lost:
		return
	case fate < how.Lost+how.Unanswered:
		a.lost = true
	case fate < how.Lost+how.Unanswered+how.Late && r.Kind == lease.WriteRecord:
		there = patience + protocol.Duration(s.random.Int64N(int64(how.Lateness)+1))
	}
	s.expect(i, slot, eventTake, there)
}

// expect plans an event of a request.
func (s *Sim) expect(i, slot int32, kind eventKind, after protocol.Duration) {
	s.registry.asked[slot].events++
	s.schedule(event{at: s.now + after, kind: kind, node: i, slot: slot})
}

// patience is for how long node n waits for an answer of the register; twice as long while
// that is slow.
func (s *Sim) patience(n *node) protocol.Duration {
	l := s.registerOf(n).entry.Record.Lease
	if l == 0 {
		l = s.scenario.Timing.TTL / 2
	}
	return (l / 8) * 1_000_000 / (1_000_000 + n.drift())
}

// take lets the register do what it was asked.
func (s *Sim) take(i, slot int32) {
	a := &s.registry.asked[slot]
	r := s.registerOf(&s.nodes[i])
	outcome, entry := s.serve(r, a)
	a.answer.Age = s.now - r.born
	if outcome != lease.Unknown && !a.lost {
		a.answer.Outcome, a.answer.Entry = outcome, entry
		s.expect(i, slot, eventAnswer, s.scenario.Register.Latency.draw(s.random))
	}
	s.settled(slot)
}

// serve is the compare-and-set.
func (s *Sim) serve(g *store, a *asked) (lease.Outcome, lease.Entry) {
	if g.closed || a.void || a.kind == lease.WriteRecord && s.now < g.shut {
		return lease.Unknown, lease.Entry{}
	}
	w := &a.write
	made := lease.Version{Domain: w.Old.Domain, Counter: w.Old.Counter + 1, Nonce: w.Nonce}
	switch {
	case a.kind == lease.ReadRecord:
		return lease.Done, g.entry
	case g.entry.Version == made:
		return lease.Done, lease.Entry{Version: made}
	case g.entry.Version != w.Old:
		return lease.Conflict, g.entry
	}
	s.checkWrite(g, w)
	g.entry = lease.Entry{Version: made, Record: w.Record}
	if !w.Renewal {
		g.synced = g.entry
		if !s.quiet {
			s.note(&Record{Event: Recorded, Node: "register", Note: fmt.Sprintf("term %d, root %s", w.Record.Term, who(w.Record.Root))})
		}
	}
	return lease.Done, lease.Entry{Version: made}
}

func who(n protocol.Node) string {
	if n.IsZero() {
		return "nobody"
	}
	return fmt.Sprintf("%s#%d", n.ID, n.Incarnation)
}

// checkWrite notices what no correct candidate writes.
func (s *Sim) checkWrite(g *store, w *lease.Write) {
	was, is := &g.entry.Record, &w.Record
	err := is.Validate()
	switch {
	case err != nil:
	case was.Term == 0:
	case is.Term < was.Term || is.Term == was.Term && is.Root != was.Root:
		err = fmt.Errorf("term %d of %s follows term %d of %s", is.Term, who(is.Root), was.Term, who(was.Root))
	case is.Ceiling < was.Ceiling:
		err = fmt.Errorf("the ceiling falls from %d to %d", was.Ceiling, is.Ceiling)
	case is.TTL != was.TTL || is.Lease != was.Lease:
		err = fmt.Errorf("the TTL or the lease changes")
	}
	if err != nil {
		s.violate("the register is asked to write a wrong record: %v", err)
	}
}

// answer hands an answer to whoever asked, or, if none comes, tells it so.
func (s *Sim) answer(i, slot int32, came bool) {
	n := &s.nodes[i]
	a := &s.registry.asked[slot]
	if !a.answered && n.candidate == a.machine && a.machine != nil && !(came && n.away) {
		answer := a.answer
		n.slow = s.now >= a.due
		if a.answered = true; !came { // what is in the answer has not come
			answer = lease.Answer{Outcome: lease.Unknown}
			if a.answer.Outcome == lease.Failed {
				answer.Outcome = lease.Failed
			}
		}
		s.settled(slot)
		s.in = protocol.Input{Kind: protocol.Tick}
		s.cause = protocol.KindNone
		_ = n.candidate.Answer(n.local(s.now), &answer, &s.out) // of a new register, too
		s.follow(i)
		return
	}
	s.settled(slot)
}

// settled notes that an event of a request has come.
func (s *Sim) settled(slot int32) {
	a := &s.registry.asked[slot]
	if a.events--; a.events == 0 {
		*a = asked{}
		s.registry.free = append(s.registry.free, slot)
	}
}

// checkRoots notices two that may act as the root at once. Node i has just taken a step.
func (s *Sim) checkRoots(i int32) {
	n := &s.nodes[i]
	if acts := n.candidate != nil && n.candidate.ActsUntil() != 0; acts != n.acts {
		if n.acts = acts; acts {
			s.roots = append(s.roots, i)
		} else {
			s.roots = slices.DeleteFunc(s.roots, func(r int32) bool { return r == i })
		}
	}
	if len(s.roots) < 2 || s.scenario.Registers > 1 { // what several may not do is let two in
		return
	}
	var names []string
	for _, r := range s.roots {
		if o := &s.nodes[r]; o.local(s.now) < o.candidate.ActsUntil() {
			names = append(names, o.ID)
		}
	}
	if slices.Sort(names); len(names) > 1 {
		s.violate("%v act as the root", names)
	}
}

// Record is what the first register has: its zero Record if nobody has created the topic.
func (s *Sim) Record() lease.Entry {
	return s.registry.all[0].entry
}

// SetRegister changes how the register is reached from now on.
func (s *Sim) SetRegister(r Register) {
	if err := r.validate(); err != nil {
		s.fail(err)
		return
	}
	s.scenario.Register = r
}

// RestartRegister makes every register forget the renewals since it wrote something else.
// It then makes no write until every lease is over that it has forgotten of.
func (s *Sim) RestartRegister() {
	s.note(&Record{Event: Forgot, Node: "register"})
	for i := range s.registry.all {
		g := &s.registry.all[i]
		g.entry = g.synced
		g.shut = s.now + protocol.Duration(float64(g.entry.Record.Lease)/(1-s.scenario.Timing.Drift)) + 1
	}
}

// LoseRegister puts a new and empty register in the place of one, which takes nothing that
// it was asked before. Whoever has known it must have ended.
func (s *Sim) LoseRegister(i int) {
	s.note(&Record{Event: Forgot, Node: "register", Note: "everything"})
	if i < 0 || i >= len(s.registry.all) {
		s.fail(fmt.Errorf("%w: there is no register %d", ErrScenario, i))
		return
	}
	s.registry.replace(i)
	s.registry.all[i].born = s.now
	for k := range s.registry.asked {
		if a := &s.registry.asked[k]; a.register == i {
			a.void = true
		}
	}
}

// CloseRegister makes every register answer nobody until OpenRegister.
func (s *Sim) CloseRegister() {
	s.note(&Record{Event: Closed, Node: "register"})
	for i := range s.registry.all {
		s.registry.all[i].closed = true
	}
}

// OpenRegister ends what CloseRegister did.
func (s *Sim) OpenRegister() {
	s.note(&Record{Event: Opened, Node: "register"})
	for i := range s.registry.all {
		s.registry.all[i].closed = false
	}
}

// Away takes the register, and only that, from a participant until Back: what it asks
// is lost, and so is what the register answers.
func (s *Sim) Away(id string) { s.setAway(id, Away, true) }

// Back ends what Away did.
func (s *Sim) Back(id string) { s.setAway(id, Back, false) }

func (s *Sim) setAway(id string, e Event, away bool) {
	if i, ok := s.running(id, "reaches the register or not"); ok {
		s.note(&Record{Event: e, Node: id})
		s.nodes[i].away = away
	}
}
