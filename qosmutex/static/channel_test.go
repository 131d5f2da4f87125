package static_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// talker enters at once and tells everybody how often it has.
type talker struct {
	env   *static.Env
	said  uint64
	heard map[int]uint64
	fault *error
}

func (c *talker) Ask(*static.Request) {
	c.said++
	for i := range c.env.N {
		if i != c.env.Self {
			m := c.env.Send(i, protocol.KindToken)
			m.Number = c.said
			m.Wishes = append(m.Wishes, protocol.Wish{Priority: int64(c.said)})
		}
	}
	c.env.Enter(c.said)
}

func (c *talker) Leave() {}

var errOrder = errors.New("out of order")

func (c *talker) Receive(from int, m *protocol.Message) error {
	if m.Number != c.heard[from]+1 || len(m.Wishes) != 1 || m.Wishes[0].Priority != int64(m.Number) {
		*c.fault = errOrder
	}
	c.heard[from]++
	return nil
}

// world is a network that does what it likes with messages.
type world struct {
	now      protocol.Time
	machines map[string]protocol.Machine
	wakeAt   map[string]protocol.Time
	wire     []protocol.Message
	ref      uint64
	out      protocol.Output
}

func (w *world) step(id string, in protocol.Input) error {
	err := w.machines[id].Step(w.now, &in, &w.out)
	for _, m := range w.out.Messages {
		encoded := protocol.AppendMessage(nil, &m) // what travels is a copy
		var copied protocol.Message
		if err := new(protocol.Decoder).Decode(encoded, &copied); err != nil {
			return err
		}
		w.wire = append(w.wire, copied)
	}
	w.wakeAt[id] = w.out.WakeAt
	return err
}

func (w *world) deliver(i int) error {
	m := w.wire[i]
	return w.step(m.To.ID, protocol.Input{Kind: protocol.Receive, Message: &m})
}

func (w *world) remove(i int) { w.wire = append(w.wire[:i], w.wire[i+1:]...) }

func TestChannelsLoseDoubleAndReorderNothing(t *testing.T) {
	ids := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		var fault error
		cores := map[string]*talker{}
		w := &world{machines: map[string]protocol.Machine{}, wakeAt: map[string]protocol.Time{}}
		algorithm := static.OverLossyChannels(protocol.Algorithm{New: func(cfg protocol.Config) (protocol.Machine, error) {
			return static.New(cfg, func(e *static.Env) static.Core {
				cores[cfg.Self.ID] = &talker{env: e, heard: map[int]uint64{}, fault: &fault}
				return cores[cfg.Self.ID]
			})
		}})
		for i, id := range ids {
			m, err := algorithm.New(protocol.Config{
				Self: protocol.Node{ID: id, Incarnation: uint64(i + 1)}, Timing: protocol.Local(), Members: ids,
				Settings: protocol.Settings{Resources: []string{"crane"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.machines[id], w.wakeAt[id] = m, protocol.Never
		}
		must := func(err error) {
			if err != nil || fault != nil {
				t.Fatal(err, fault)
			}
		}
		said := map[string]uint64{}
		speak := func(id string) {
			w.ref++
			said[id]++
			must(w.step(id, protocol.Input{Kind: protocol.Acquire, Ref: w.ref, Resource: "crane"}))
			must(w.step(id, protocol.Input{Kind: protocol.Leave, Ref: w.ref}))
		}
		tick := func() {
			for _, id := range ids {
				if w.wakeAt[id] <= w.now {
					must(w.step(id, protocol.Input{Kind: protocol.Tick}))
				}
			}
		}
		for _, id := range ids { // every core exists
			speak(id)
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 9).Draw(t, "do"); {
			case do == 0:
				speak(rapid.SampledFrom(ids).Draw(t, "who"))
			case do == 1:
				w.now += protocol.Duration(rapid.IntRange(1, 50).Draw(t, "ms")) * protocol.Millisecond
				tick()
			case do == 2: // the peer notices as well, and what was under way is gone
				w.wire = nil
				must(w.step(rapid.SampledFrom(ids).Draw(t, "who"), protocol.Input{Kind: protocol.Reconnect}))
			case len(w.wire) > 0:
				i := rapid.IntRange(0, len(w.wire)-1).Draw(t, "message")
				if do != 3 { // 3: lost
					must(w.deliver(i))
				}
				if do != 4 { // 4: it comes once more
					w.remove(i)
				}
			}
		}
		for round := 0; len(w.wire) > 0 || min(w.wakeAt["a"], w.wakeAt["b"], w.wakeAt["c"]) < protocol.Never; round++ {
			if round > 1000 {
				t.Fatal("the channels never fall silent")
			}
			for len(w.wire) > 0 {
				must(w.deliver(0))
				w.remove(0)
			}
			w.now += protocol.Second
			tick()
		}
		for i, from := range ids {
			for _, to := range ids {
				if to != from && cores[to].heard[i] != said[from] {
					t.Fatalf("%s heard %d of %d from %s", to, cores[to].heard[i], said[from], from)
				}
			}
		}
	})
}

// listener is b, with a channel to a.
func listener(t *testing.T, fault *error) protocol.Machine {
	t.Helper()
	algorithm := static.OverLossyChannels(protocol.Algorithm{New: func(cfg protocol.Config) (protocol.Machine, error) {
		return static.New(cfg, func(e *static.Env) static.Core { return &talker{env: e, heard: map[int]uint64{}, fault: fault} })
	}})
	m, err := algorithm.New(protocol.Config{
		Self: protocol.Node{ID: "b", Incarnation: 1}, Timing: protocol.Local(), Members: []string{"a", "b"},
		Settings: protocol.Settings{Open: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnotherIncarnationIsNotAnswered(t *testing.T) {
	var fault error
	m := listener(t, &fault)
	receive := func(who string, incarnation, seq uint64) error {
		return m.Step(0, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: protocol.KindToken, From: protocol.Node{ID: who, Incarnation: incarnation}, To: protocol.Node{ID: "b"},
			Seq: seq, Number: seq, Resource: "crane", Wishes: []protocol.Wish{{Priority: int64(seq)}},
		}}, new(protocol.Output))
	}
	if err := receive("a", 5, 1); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{receive("a", 6, 2), receive("x", 1, 1), receive("b", 1, 1)} {
		if !errors.Is(err, static.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
	if err := receive("a", 5, 2); err != nil || fault != nil {
		t.Error(err, fault)
	}
}

// A message that comes again says that its receipt was lost.
func TestALostReceiptIsSentAgain(t *testing.T) {
	var fault error
	m := listener(t, &fault)
	var out protocol.Output
	now := protocol.Time(0)
	for range 3 {
		_ = m.Step(now, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: protocol.KindToken, From: protocol.Node{ID: "a", Incarnation: 1}, To: protocol.Node{ID: "b"},
			Seq: 1, Number: 1, Resource: "crane", Wishes: []protocol.Wish{{Priority: 1}},
		}}, &out)
		if len(out.Messages) == 0 {
			now = out.WakeAt
			if err := m.Step(now, &protocol.Input{Kind: protocol.Tick}, &out); err != nil {
				t.Fatal(err)
			}
		}
		if len(out.Messages) != 1 || out.Messages[0].Kind != protocol.KindReceipt || out.Messages[0].Ack != 1 || out.WakeAt != protocol.Never {
			t.Fatalf("%+v, wakes at %d", out.Messages, out.WakeAt)
		}
	}
	if fault != nil {
		t.Error(fault)
	}
}
