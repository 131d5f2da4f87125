package qosmutex

import (
	"errors"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// Without the Deadline model nothing is promised, but nobody waits in vain either.
func TestADeadlineThatPassesEndsTheWaiting(t *testing.T) {
	t.Parallel()
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
	spy := func(cfg protocol.Config) (machine, error) {
		cfg.Root = true
		m, err := padme.New(cfg)
		return spyMachine{m, &asked}, err
	}
	topic := open(t, join(t, b.URL(), "root"), "yard", WithResources("crane"), withMachine(spy))
	unlock(t, lock(t, topic, "crane", WithDeadline(time.Now().Add(time.Minute)), WithHold(3*time.Second)))
	if asked.Hold != 3*protocol.Second || asked.Within <= 50*protocol.Second || asked.Within > 60*protocol.Second {
		t.Errorf("%+v", asked)
	}
	unlock(t, lock(t, topic, "crane", WithHold(0)))
	if asked.Hold != 0 || asked.Within != 0 {
		t.Errorf("%+v", asked)
	}
}

// A hold of negative length is a slip, and no hold of unknown length.
func TestNegativeHoldIsRefused(t *testing.T) {
	topic := open(t, join(t, startBroker(t, "127.0.0.1:0").URL(), "root"), "yard", Create(), WithResources("crane"))
	for name, take := range map[string]func() error{
		"Lock":    func() error { return errorOf(topic.Lock(testContext(t), "crane", WithHold(-1))) },
		"TryLock": func() error { return errorOf(topic.TryLock(testContext(t), "crane", WithHold(-1))) },
		"Ask":     func() error { return errorOf(topic.Ask("crane", WithHold(-1))) },
	} {
		if err := take(); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "WithHold(-1ns) is negative") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// withMachine has the topic run another machine than PADME's.
func withMachine(make func(protocol.Config) (machine, error)) Option {
	return func(o *options) error {
		o.substitute = make
		return nil
	}
}

// spyMachine keeps the last Acquire.
type spyMachine struct {
	machine
	asked *protocol.Input
}

func (m spyMachine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Acquire {
		*m.asked = *in
	}
	return m.machine.Step(now, in, out)
}
