package explore

import (
	"errors"
	"fmt"
	"sync"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// entered notes an entry and checks that it is one (I2).
func (w *world) entered(i int, g protocol.Granted) {
	n := &w.nodes[i]
	switch {
	case g.Fence <= w.fence:
		w.fail("I2: %s enters with fence %d after fence %d", letter(i), g.Fence, w.fence)
	case n.state != waits || g.Ref != uint64(n.asked):
		w.fail("%s enters for request %d, which does not wait", letter(i), g.Ref)
	case !w.valid(i):
		w.fail("%s enters without a valid session", letter(i))
	}
	w.fence = max(w.fence, g.Fence)
	n.state, n.until = inside, g.Until
	if !w.holds(i) {
		w.fail("%s enters when its hold is over", letter(i))
	}
}

// valid reports whether i has a session, or lease, now.
func (w *world) valid(i int) bool {
	return !w.nodes[i].is(crashed) && w.now < w.nodes[i].machine.ValidUntil()
}

// holds reports whether a hold of i passes Check now.
func (w *world) holds(i int) bool {
	n := &w.nodes[i]
	return n.state == inside && w.valid(i) && (n.until == 0 || w.now < n.until)
}

// checkError fails if a machine received what no correct participant sends.
func (w *world) checkError(i int, err error) {
	if errors.Is(err, padme.ErrInvalid) || errors.Is(err, padme.ErrRef) {
		w.fail("%s: %v", letter(i), err)
	}
}

// check checks what must hold after every step; i has taken it.
func (w *world) check(i int) {
	if w.failure != nil {
		return
	}
	if err := w.nodes[i].machine.CheckInvariants(); err != nil {
		w.fail("%s: %v", letter(i), err)
	}
	holder, keeper, root, ruler := -1, -1, -1, -1
	var term protocol.Epoch
	for j := range w.nodes {
		n := &w.nodes[j]
		if n.machine == nil || n.is(crashed) {
			continue
		}
		role, epoch := n.machine.Term()
		if role == protocol.Root {
			if root >= 0 && epoch == term {
				w.fail("I6: %s and %s are roots of epoch %v", letter(root), letter(j), epoch)
			}
			root, term = j, epoch
		}
		if w.now < n.machine.ActsUntil() {
			if ruler >= 0 {
				w.fail("I6: %s and %s both act as roots under a lease", letter(ruler), letter(j))
			}
			ruler = j
		}
		if !w.valid(j) {
			continue
		}
		if w.holds(j) {
			if holder >= 0 {
				w.fail("I1: %s and %s both hold %s", letter(holder), letter(j), resource)
			}
			holder = j
		}
		if n.machine.HasToken(resource) && (n.state != inside || w.holds(j)) {
			if keeper >= 0 {
				w.fail("I3: %s and %s both have the token of %s", letter(keeper), letter(j), resource)
			}
			keeper = j
		}
	}
}

// checkAtRest reports what is left of any request (I7), and who has no place in
// the tree (I5). It holds when nobody wants anything and nothing is in flight.
func (w *world) checkAtRest() error {
	keepers := 0
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.machine == nil || n.is(crashed) {
			continue
		}
		if err := n.machine.CheckAtRest(); err != nil {
			return err
		}
		if n.machine.HasToken(resource) {
			keepers++
		}
	}
	if keepers != 1 {
		return fmt.Errorf("%d participants have the token", keepers)
	}
	return nil
}

// checkWithdrawn demands that nobody knows a withdrawn request once no message is in
// flight (I7), as long as nothing has gone wrong.
func (w *world) checkWithdrawn() {
	if w.broken || w.failure != nil || !w.quiet() {
		return
	}
	for i := range w.nodes {
		for j := range w.nodes {
			if id := w.nodes[i].gone; !id.IsZero() && w.nodes[j].machine.Knows(id) {
				w.fail("I7: %s has withdrawn its request, but %s still knows it", letter(i), letter(j))
			}
		}
	}
}

// checkStill checks a state in which no message is in flight and nobody is inside
// (I7, I8). It may change w. served notes how many ticks it takes from a state until
// all is at rest.
func (w *world) checkStill(served *outcomes, h *hasher) {
	if !w.broken {
		w.checkServed()
		return
	}
	w.log("everything is healed, and nobody asks any more")
	w.heal()
	var passed []uint64
	for ticks := 0; ticks <= Patience && w.failure == nil; {
		w.settle()
		if w.leaveAll() {
			continue
		}
		key := h.key(w)
		rest, known := served.look(key)
		if known && ticks+rest <= Patience || !w.busy() && w.checkAtRest() == nil {
			served.note(passed, ticks+rest)
			return
		}
		passed = append(passed, key)
		w.log("tick")
		w.tick()
		ticks++
	}
	for i := range w.nodes {
		if w.nodes[i].state != idle && !w.nodes[i].is(crashed) {
			w.fail("I8: %s still waits %d ticks after all faults", letter(i), Patience)
		}
	}
	if err := w.checkAtRest(); err != nil {
		w.fail("I7: %d ticks after all faults: %w", Patience, err)
	}
}

// outcomes remembers healed states from which everybody is served, each with the
// ticks that it takes. It may be used concurrently; nil remembers nothing.
type outcomes struct {
	mu    sync.Mutex
	ticks map[uint64]uint8
}

func (o *outcomes) look(key uint64) (ticks int, known bool) {
	if o == nil {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n, known := o.ticks[key]
	return int(n), known
}

// note notes states that were passed one tick after another, total before the end.
func (o *outcomes) note(passed []uint64, total int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, key := range passed {
		o.ticks[key] = uint8(total - i)
	}
}

// checkServed demands, where nothing has gone wrong, that nobody waits without
// reason.
func (w *world) checkServed() {
	if w.busy() {
		w.fail("I8: %s while no message is in flight and nobody is inside", w.waiting())
	} else if err := w.checkAtRest(); err != nil {
		w.fail("I7: %w", err)
	}
}

func (w *world) busy() bool {
	for i := range w.nodes {
		if w.nodes[i].state != idle {
			return true
		}
	}
	return false
}

func (w *world) waiting() string {
	for i := range w.nodes {
		if w.nodes[i].state == waits {
			return letter(i) + " waits"
		}
	}
	return "nobody waits"
}

// still reports whether checkStill applies.
func (w *world) still() bool {
	for i := range w.nodes {
		if w.nodes[i].state == inside {
			return false
		}
	}
	return w.quiet()
}

// heal ends all faults and lets nothing begin any more.
func (w *world) heal() {
	w.budget, w.healed = [kindEnd]int8{}, true
	for i := range w.nodes {
		for _, k := range [...]Kind{Revive, Heal} {
			if a := (Action{Kind: k, A: uint8(i)}); w.possible(a) {
				w.breakDown(a)
			}
		}
		if w.nodes[i].is(crashed) && (!w.cfg.Adaptive || !w.anyAble()) { // else the others do without it
			w.start(i)
		}
	}
	w.register.ghosts = nil
}

// leaveAll lets whoever is inside leave.
func (w *world) leaveAll() (any bool) {
	for i := range w.nodes {
		if w.nodes[i].state == inside && w.failure == nil {
			w.do(Action{Kind: Leave, A: uint8(i)})
			any = true
		}
	}
	return any
}

// describe writes a message for people.
func describe(m *protocol.Message) string {
	s := m.Kind.String()
	switch m.Kind {
	case protocol.KindRequest, protocol.KindWithdraw, protocol.KindDeny:
		s += fmt.Sprintf(" ⟨%s,p%d,c%d⟩", m.ID.Node.ID, m.Priority, m.ID.Clock)
	case protocol.KindReply, protocol.KindRelease, protocol.KindSync, protocol.KindReport:
		s += fmt.Sprintf(" ⟨%s,c%d⟩ grant %d", m.ID.Node.ID, m.ID.Clock, m.Grant.Number)
	}
	switch m.Kind {
	case protocol.KindReply:
		s += fmt.Sprintf(" fences %d–%d", m.Fences.Next, m.Fences.End-1)
		if m.Flags&protocol.FlagDirect != 0 {
			s += " direct"
		}
	case protocol.KindRelease:
		for _, e := range m.Entries {
			s += fmt.Sprintf(" (%s,c%d)", e.ID.Node.ID, e.ID.Clock)
		}
		if m.Flags&protocol.FlagReturned != 0 {
			s += " returned"
		}
		if m.Flags&protocol.FlagRepeated != 0 {
			s += " repeated"
		}
		if m.Flags&protocol.FlagDirect != 0 {
			s += " was sent on"
		}
	case protocol.KindReport:
		s += ": " + [...]string{"?", "never had it", "holding it", "passed it to " + m.PassedTo.ID}[m.Verdict&3]
	}
	for i := range m.Schedule {
		s += fmt.Sprintf(" then %s grant %d", m.Schedule[i].ID.Node.ID, m.Schedule[i].Number)
	}
	return s
}
