package static_test

import (
	"errors"
	"math"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// echo acknowledges every Request, and refuses everything else.
type echo struct{ env *static.Env }

func (c *echo) Ask(*static.Request) {}
func (c *echo) Leave()              {}
func (c *echo) Receive(from int, m *protocol.Message) error {
	if m.Kind != protocol.KindRequest {
		return errors.New("not a Request")
	}
	c.env.Send(from, protocol.KindAck).ID = m.ID
	return nil
}

func newEcho(t *testing.T) *static.Machine {
	m, err := static.New(protocol.Config{
		Self: protocol.Node{ID: "b", Incarnation: 1}, Timing: protocol.LAN(), Members: []string{"a", "b"},
		Settings: protocol.Settings{Resources: []string{"crane"}},
	}, func(e *static.Env) static.Core { return &echo{e} })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Lamport's rule 2 needs an acknowledgement that is later than the request.
func TestAnswerIsLaterThanTheMessage(t *testing.T) {
	m := newEcho(t)
	var out protocol.Output
	a := protocol.Node{ID: "a", Incarnation: 1}
	send := func(kind protocol.Kind, clock, id uint64) error {
		return m.Step(0, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: kind, From: a, To: protocol.Node{ID: "b"}, Resource: "crane", Clock: clock,
			ID: protocol.RequestID{Node: a, Clock: id},
		}}, &out)
	}
	if err := send(protocol.KindRequest, 41, 40); err != nil {
		t.Fatal(err)
	}
	if got := out.Messages[0].Clock; got != 42 {
		t.Errorf("a message of clock 41 is answered at clock %d, want 42", got)
	}
	if err := send(protocol.KindToken, 1000, 1000); err == nil {
		t.Error("a Token is not refused")
	}
	for _, far := range []uint64{math.MaxUint64, 1<<62 + 1} {
		if err := send(protocol.KindRequest, 50, far); err == nil {
			t.Errorf("a request of clock %d is not refused", far)
		}
		if err := send(protocol.KindRequest, far, 50); err == nil {
			t.Errorf("a message of clock %d is not refused", far)
		}
	}
	if err := send(protocol.KindRequest, 43, 43); err != nil {
		t.Fatal(err)
	}
	if got := out.Messages[0].Clock; got != 44 {
		t.Errorf("after messages that were refused, the clock is %d, want 44", got)
	}
}
