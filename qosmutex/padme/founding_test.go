package padme

import (
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// founder adds a participant that may found the topic, but listens first.
func (w *world) founder(t *testing.T, name string, priority int64) *node {
	t.Helper()
	w.nextInc++
	m, err := New(protocol.Config{
		Self: protocol.Node{ID: name, Incarnation: w.nextInc}, Priority: priority, Timing: w.timing,
		Settings: w.settings, Found: true, Fanout: w.fanout,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{name: name, priority: priority, machine: m, inside: map[string]protocol.Granted{}}
	n.base, n.baseAt = protocol.Time(w.nextInc)*protocol.Second, w.now
	w.nodes[name] = n
	w.order = append(w.order, name)
	return n
}

// start lets n take its first step.
func (w *world) start(t *testing.T, n *node) {
	t.Helper()
	if err := w.step(n, &protocol.Input{Kind: protocol.Tick}); err != nil {
		t.Fatal(err)
	}
}

// sound fails the test if an invariant was broken.
func (w *world) sound(t *testing.T) {
	t.Helper()
	if w.failure != nil {
		t.Error(w.failure)
	}
}

// TestFounderListensForAGrace: a founder that hears nobody is the root after a
// grace, and not before.
func TestFounderListensForAGrace(t *testing.T) {
	w := newWorld()
	n := w.founder(t, "A", 1)
	w.start(t, n)
	for range 30 {
		w.advance(w.timing.Grace()/30, true)
		if r := n.machine.role; r != protocol.Founding {
			t.Fatalf("%v before the grace was over", r)
		}
	}
	w.advance(w.timing.Heartbeat, true)
	if r := n.machine.role; r != protocol.Root {
		t.Errorf("%v after the grace", r)
	}
	w.sound(t)
}

// TestFounderJoinsTheRootThatItHears: where there is a root, there is nothing to
// found, however important the founder is.
func TestFounderJoinsTheRootThatItHears(t *testing.T) {
	w := newWorld()
	if err := w.do("tree A(B) fanout=4"); err != nil {
		t.Fatal(err)
	}
	n := w.founder(t, "C", 7)
	w.start(t, n)
	w.advance(w.timing.Heartbeat, true)
	if m := n.machine; m.role != protocol.Member || m.root != w.nodes["A"].machine.self {
		t.Errorf("%v, root %v; want a member below A", m.role, m.root)
	}
	w.sound(t)
}

// TestFounderThatIsCutOffFoundsNothing: silence says nothing to one that does not
// even hear itself.
func TestFounderThatIsCutOffFoundsNothing(t *testing.T) {
	w := newWorld()
	n := w.founder(t, "A", 1)
	n.offline = true
	w.stepped = func(n *node) {
		if r := n.machine.role; r != protocol.Founding {
			t.Fatalf("it is %v without ever having heard its own heartbeat", r)
		}
	}
	w.start(t, n)
	w.advance(10*w.timing.Grace(), true)
	w.sound(t)
}

// TestTheMoreImportantFounderGoesFirst: the less important one waits for it, also
// if it has listened for longer.
func TestTheMoreImportantFounderGoesFirst(t *testing.T) {
	w := newWorld()
	late, early := w.founder(t, "A", 1), w.founder(t, "B", 2)
	w.start(t, early)
	w.advance(w.timing.Grace()/2, true)
	w.start(t, late)
	w.advance(3*w.timing.Grace(), true)
	if late.machine.role != protocol.Root || early.machine.role != protocol.Member {
		t.Errorf("the more important one is %v, the other %v", late.machine.role, early.machine.role)
	}
	w.sound(t)
}

// TestWhoKnowsOfNewerVotersFoundsFirst: A has decided alone since B departed, and
// listens because its lease ran out. C still counts on the votes of all three and holds
// up a more important founder, who knows of none; A must not wait for that one.
func TestWhoKnowsOfNewerVotersFoundsFirst(t *testing.T) {
	w := newWorld()
	for _, line := range strings.Split("grow A B C voters=3;advance 8s;cut C;advance 6s;depart B;advance 3s;cut A;advance 4s;heal C;advance 1s;heal A", ";") {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	d := w.founder(t, "D", -1)
	w.start(t, d)
	a := w.nodes["A"].machine
	for end := w.now + 3*w.timing.Grace(); a.role == protocol.Founding && w.now < end; {
		w.advance(w.timing.JoinWait, true)
	}
	if a.role != protocol.Root || d.machine.role == protocol.Root {
		t.Errorf("A is %v, D is %v; want A for the root", a.role, d.machine.role)
	}
	w.sound(t)
}

// TestFounderHearsARootThatComesBackInTime: a root that was cut off when the founder
// began, and has its connection back just before its lease ends, is still the root.
func TestFounderHearsARootThatComesBackInTime(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A fanout=4", "cut A"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	n := w.founder(t, "C", 7)
	w.start(t, n)
	w.advance(w.timing.TTL-w.timing.TTL/30, true)
	if err := w.do("heal A"); err != nil {
		t.Fatal(err)
	}
	if r := w.nodes["A"].machine.role; r != protocol.Root {
		t.Fatalf("A is %v before its lease is over", r)
	}
	w.advance(w.timing.TTL, true)
	if a, c := w.nodes["A"].machine.role, n.machine.role; a != protocol.Root || c != protocol.Member {
		t.Errorf("A is %v, C is %v; want root and member", a, c)
	}
	w.sound(t)
}

// TestWhoReplacesALoneRootIsAboveItsFences: A's wall clock is ahead of B's, and the broker
// has forgotten everything when A dies. B was a member until then, and lets nobody in
// below what A has given.
func TestWhoReplacesALoneRootIsAboveItsFences(t *testing.T) {
	w := newWorld()
	w.founders = "B"
	a := w.founder(t, "A", 0)
	w.start(t, a)
	if err := w.step(a, &protocol.Input{Kind: protocol.Floors, FenceFloor: 1 << 50}); err != nil {
		t.Fatal(err)
	}
	play(t, w, "advance 8s", "join B p1", "advance 2s", "request A", "leave A", "advance 2s", "crash A", "advance 20s", "request B")
	if b := w.nodes["B"]; b.machine.role != protocol.Root || len(b.inside) == 0 {
		t.Errorf("B is %v, inside %v", b.machine.role, b.inside)
	}
	w.sound(t)
}

// TestFloorsThatComeAfterTheFounding: a slow broker answers when the topic is founded
// already. What is let in from then on is above what it remembers.
func TestFloorsThatComeAfterTheFounding(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "request B", "leave B")
	if err := w.step(w.nodes["A"], &protocol.Input{Kind: protocol.Floors, FenceFloor: 1 << 50}); err != nil {
		t.Fatal(err)
	}
	play(t, w, "request B")
	if f := w.nodes["B"].inside["x"].Fence; f <= 1<<50 {
		t.Errorf("fence %d, the broker remembers %d", f, uint64(1)<<50)
	}
	w.sound(t)
}
