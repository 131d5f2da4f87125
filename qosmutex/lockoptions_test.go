package qosmutex

import (
	"context"
	"errors"
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

// Without the Deadline model nothing is promised, but nobody waits in vain either.
func TestADeadlineThatPassesEndsTheWaiting(t *testing.T) {
	b := startBroker(t, "127.0.0.1:0")
	root, members := group(t, b.URL(), "yard", 1)
	h := lock(t, root, "crane")
	begin := time.Now()
	_, err := members[0].Lock(testContext(t), "crane", WithDeadline(time.Now().Add(50*time.Millisecond)))
	if !errors.Is(err, ErrDeadlineMissed) || time.Since(begin) < 50*time.Millisecond {
		t.Fatalf("%v after %v", err, time.Since(begin))
	}
	if _, err := members[0].Lock(testContext(t), "crane", WithDeadline(time.Now().Add(-time.Second))); !errors.Is(err, ErrDeadlineMissed) {
		t.Fatalf("a deadline in the past: %v", err)
	}
	unlock(t, h)
	unlock(t, lock(t, members[0], "crane", WithDeadline(time.Now().Add(time.Minute)), WithHold(time.Second)))
}

// What the application says of a request reaches the machine.
func TestDeadlineAndHoldReachTheMachine(t *testing.T) {
	b := startBroker(t, "127.0.0.1:0")
	var asked protocol.Input
	spy := central
	spy.New = func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := central.New(cfg)
		return spyMachine{m, &asked}, err
	}
	topic := open(t, join(t, b.URL(), "root"), "yard", Create(), WithResources("crane"), WithAlgorithm(spy))
	unlock(t, lock(t, topic, "crane", WithDeadline(time.Now().Add(time.Minute)), WithHold(3*time.Second)))
	if asked.Hold != 3*protocol.Second || asked.Within <= 50*protocol.Second || asked.Within > 60*protocol.Second {
		t.Errorf("%+v", asked)
	}
	unlock(t, lock(t, topic, "crane", WithHold(-time.Second)))
	if asked.Hold != 0 || asked.Within != 0 {
		t.Errorf("%+v", asked)
	}
}

// spyMachine keeps the last Acquire.
type spyMachine struct {
	protocol.Machine
	asked *protocol.Input
}

func (m spyMachine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Acquire {
		*m.asked = *in
	}
	return m.Machine.Step(now, in, out)
}

func TestAlgorithmsAndMembers(t *testing.T) {
	static := protocol.Algorithm{Name: "still", Static: true, New: central.New}
	for name, opts := range map[string][]Option{
		"static without members": {WithAlgorithm(static)},
		"PADME with members":     {WithMembers("a", "b")},
		"no constructor":         {WithAlgorithm(protocol.Algorithm{Name: "empty"})},
	} {
		if _, err := optionsOf(opts); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := optionsOf([]Option{WithAlgorithm(static), WithMembers("a", "")}); !errors.Is(err, ErrInvalidName) {
		t.Errorf("a name that is empty: %v", err)
	}
	if _, err := AlgorithmNamed("padmé"); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("%v", err)
	}
	seen := map[string]bool{}
	for _, a := range Algorithms() {
		if b, err := AlgorithmNamed(a.Name); err != nil || b.Name != a.Name || seen[a.Name] {
			t.Errorf("%q: %v", a.Name, err)
		}
		if seen[a.Name] = true; a.Source == "" || a.Messages == "" || a.Delay == "" || a.Assumes == "" || a.Crash == "" {
			t.Errorf("%q says too little of itself: %+v", a.Name, a)
		}
	}
}

// A participant that is not among the members is told so.
func TestNotAMember(t *testing.T) {
	b := startBroker(t, "127.0.0.1:0")
	stranger := join(t, b.URL(), "stranger")
	for _, a := range Algorithms() {
		if !a.Static {
			continue
		}
		_, err := Open(context.Background(), stranger, "yard", WithAlgorithm(a), WithMembers("a", "b"), WithOpenResources())
		if !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}
