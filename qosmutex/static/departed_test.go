package static_test

import (
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// sleeper wants to be woken a second after each message.
type sleeper struct{ echo }

func (c *sleeper) Receive(from int, m *protocol.Message) error {
	c.env.WakeAt(c.env.Now() + protocol.Second)
	return c.echo.Receive(from, m)
}

func (c *sleeper) Tick() {}

// A machine that has departed does nothing any more, and wants no tick.
func TestADepartedMachineSleeps(t *testing.T) {
	m, err := static.New(protocol.Config{
		Self: protocol.Node{ID: "b", Incarnation: 1}, Timing: protocol.LAN(), Members: []string{"a", "b"},
		Settings: protocol.Settings{Resources: []string{"crane"}},
	}, func(e *static.Env) static.Core { return &sleeper{echo{e}} })
	if err != nil {
		t.Fatal(err)
	}
	var out protocol.Output
	a := protocol.Node{ID: "a", Incarnation: 1}
	for _, c := range []struct {
		at   protocol.Time
		in   protocol.Input
		wake protocol.Time
	}{
		{0, protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: protocol.KindRequest, From: a, To: protocol.Node{ID: "b"}, Resource: "crane", ID: protocol.RequestID{Node: a, Clock: 1},
		}}, protocol.Second},
		{1, protocol.Input{Kind: protocol.Depart}, protocol.Never},
		{2 * protocol.Second, protocol.Input{Kind: protocol.Tick}, protocol.Never},
	} {
		if err := m.Step(c.at, &c.in, &out); err != nil || out.WakeAt != c.wake {
			t.Errorf("at %d: wakes at %d, want %d; %v", c.at, out.WakeAt, c.wake, err)
		}
	}
}
