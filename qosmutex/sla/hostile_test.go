package sla

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// good returns a message from participant 0 to participant 1 of a chain of three
// that a correct participant sends while 1 waits for the token.
func good(kind protocol.Kind) protocol.Message {
	m := protocol.Message{
		Kind: kind, From: protocol.Node{ID: "1", Incarnation: 1}, To: protocol.Node{ID: "2", Incarnation: 1}, Resource: lock,
		ID: protocol.RequestID{Node: protocol.Node{ID: "1"}, Clock: 1}, Priority: Levels - 1, Hops: 1,
	}
	if kind == protocol.KindToken {
		m.Number, m.Fences = 3, protocol.Fences{Next: 4, End: math.MaxUint64}
	}
	return m
}

// TestHostile: what no correct participant sends is refused and changes nothing.
func TestHostile(t *testing.T) {
	for _, x := range []struct {
		name string
		kind protocol.Kind
		bad  func(m *protocol.Message)
	}{
		{"other kind", protocol.KindReply, func(*protocol.Message) {}},
		{"request from no neighbor", protocol.KindRequest, func(m *protocol.Message) { m.From.ID = "4" }},
		{"request of a stranger", protocol.KindRequest, func(m *protocol.Message) { m.ID.Node.ID = "x" }},
		{"request of nobody", protocol.KindRequest, func(m *protocol.Message) { m.ID.Node.ID = "" }},
		{"request of the receiver", protocol.KindRequest, func(m *protocol.Message) { m.ID.Node.ID = "2" }},
		{"request from here", protocol.KindRequest, func(m *protocol.Message) { m.Hops = 0 }},
		{"request from too far", protocol.KindRequest, func(m *protocol.Message) { m.Hops = 4 }},
		{"request less important than the least", protocol.KindRequest, func(m *protocol.Message) { m.Priority = Levels }},
		{"request more important than can be", protocol.KindRequest, func(m *protocol.Message) { m.Priority = math.MinInt64 }},
		{"token from below", protocol.KindToken, func(m *protocol.Message) { m.From.ID = "3" }},
		{"token without fences", protocol.KindToken, func(m *protocol.Message) { m.Fences = protocol.Fences{End: math.MaxUint64} }},
		{"token with a range of fences", protocol.KindToken, func(m *protocol.Message) { m.Fences.End = 5 }},
		{"token whose fences run out", protocol.KindToken, func(m *protocol.Message) { m.Fences.Next = math.MaxUint64 }},
		{"token after too many entries", protocol.KindToken, func(m *protocol.Message) { m.Number = math.MaxUint64 }},
		{"token wanted back by a stranger", protocol.KindToken, func(m *protocol.Message) {
			m.Flags, m.ID.Node.ID = protocol.FlagWanted, "x"
		}},
	} {
		for _, a := range family {
			t.Run(x.name+"/"+a.name, func(t *testing.T) {
				f := newFigure(t, a.rules, 4, []int{-1, 0, 1, 0})
				f.ask(1, 0)
				f.deliver(1, 0) // the token, which stays under way
				m := good(x.kind)
				x.bad(&m)
				before := f.cores[1].snapshot()
				err := f.step(1, &protocol.Input{Kind: protocol.Receive, Message: &m})
				if !errors.Is(err, static.ErrInvalid) {
					t.Fatalf("error %v", err)
				}
				if after := f.cores[1].snapshot(); !reflect.DeepEqual(before, after) || len(f.entries) > 0 || len(f.events) != 1 {
					t.Errorf("%+v became %+v; %d entries, %d messages", before, after, len(f.entries), len(f.events))
				}
			})
		}
	}
}

// TestHostileToken: a token that nobody asked for, that was here before, or that
// bears a request where the algorithm sends these by themselves.
func TestHostileToken(t *testing.T) {
	receive := func(f *figure, change func(m *protocol.Message)) error {
		m := good(protocol.KindToken)
		change(&m)
		return f.step(1, &protocol.Input{Kind: protocol.Receive, Message: &m})
	}
	for _, a := range family {
		t.Run(a.name, func(t *testing.T) {
			f := newFigure(t, a.rules, 3, []int{-1, 0, 1})
			if err := receive(f, func(*protocol.Message) {}); !errors.Is(err, errUnasked) {
				t.Errorf("nobody asked: %v", err)
			}
			f.ask(1, 0)
			f.settle()
			if err := receive(f, func(*protocol.Message) {}); !errors.Is(err, errNoToken) {
				t.Errorf("a second token: %v", err)
			}
			f.leave(1)
			f.ask(0, 0)
			f.settle() // it went back with fence 2 after one entry
			f.leave(0)
			f.ask(1, 0)
			for _, old := range []func(m *protocol.Message){
				func(m *protocol.Message) { m.Fences.Next = 1 },
				func(m *protocol.Message) { m.Number = 0 },
			} {
				if err := receive(f, old); !errors.Is(err, errStale) {
					t.Errorf("a token of the past: %v", err)
				}
			}
			wanted := receive(f, func(m *protocol.Message) { m.Flags = protocol.FlagWanted })
			if (wanted == nil) != a.rules.piggyback {
				t.Errorf("a token with a request: %v", wanted)
			}
		})
	}
}

// snapshot copies all that a message may change.
func (c *core) snapshot() core {
	s := *c
	s.queue = slices.Clone(c.queue)
	return s
}

// TestAnything feeds a participant whatever neighbors and strangers might send,
// between what it does itself: no panic, every refusal changes nothing, and whatever
// it accepts leaves its invariants whole and its memory bounded by its neighbors.
func TestAnything(t *testing.T) { rapid.Check(t, anything) }

// FuzzAnything is TestAnything from the fuzzer's bytes.
func FuzzAnything(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anything)) }

func anything(t *rapid.T) {
	a := family[rapid.IntRange(0, len(family)-1).Draw(t, "algorithm")]
	f := newFigure(t, a.rules, 5, []int{-1, 0, 1, 1, 2})
	self := rapid.IntRange(0, 2).Draw(t, "self")
	m, n := f.nodes[self].machine, f.nodes[self]
	var out protocol.Output
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		in := drawInput(t, self, n)
		var before core
		if f.cores[self] != nil {
			before = f.cores[self].snapshot()
		}
		err := m.Step(f.now, &in, &out)
		c := f.cores[self]
		if err != nil && before.env != nil && !reflect.DeepEqual(before, c.snapshot()) {
			t.Fatalf("refused with %v: %+v became %+v", err, before, *c)
		}
		for _, g := range out.Grants {
			n.waiting = slices.DeleteFunc(n.waiting, func(r uint64) bool { return r == g.Ref })
			n.holding = g.Ref
		}
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		if c != nil && len(c.queue) > len(c.near)+1 {
			t.Fatalf("%d requests wait from %d sides", len(c.queue), len(c.near)+1)
		}
	}
}

// drawInput draws a call of the application that makes sense, or any message.
func drawInput(t *rapid.T, self int, n *pumpNode) protocol.Input {
	switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
	case act == 0:
		n.ref++
		n.waiting = append(n.waiting, n.ref)
		return protocol.Input{
			Kind: protocol.Acquire, Ref: n.ref, Resource: lock, Fixed: true, Priority: rapid.Int64().Draw(t, "own priority"),
		}
	case act == 1 && n.holding != 0:
		ref := n.holding
		n.holding = 0
		return protocol.Input{Kind: protocol.Leave, Ref: ref}
	case act == 2 && len(n.waiting) > 0:
		ref := n.waiting[0]
		n.waiting = n.waiting[1:]
		return protocol.Input{Kind: protocol.Withdraw, Ref: ref}
	case act == 3:
		return protocol.Input{Kind: protocol.Prioritize, Priority: rapid.Int64Range(-2, Levels+2).Draw(t, "priority")}
	}
	m := drawMessage(t)
	m.To = protocol.Node{ID: string(rune('1' + self))}
	return protocol.Input{Kind: protocol.Receive, Message: &m}
}

func drawMessage(t *rapid.T) protocol.Message {
	name := func(what string) protocol.Node {
		return protocol.Node{ID: rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "", "x"}).Draw(t, what)}
	}
	number := rapid.OneOf(rapid.Uint64Range(0, 30), rapid.Uint64())
	m := protocol.Message{
		Kind: rapid.SampledFrom([]protocol.Kind{
			protocol.KindRequest, protocol.KindRequest, protocol.KindToken, protocol.KindToken, protocol.KindAck,
		}).Draw(t, "kind"),
		From: name("from"), ID: protocol.RequestID{Node: name("origin"), Clock: number.Draw(t, "clock")}, Resource: lock,
		Priority: rapid.OneOf(rapid.Int64Range(0, Levels), rapid.Int64()).Draw(t, "priority"),
		Hops:     rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32()).Draw(t, "hops"),
		Number:   number.Draw(t, "number"),
		Fences:   protocol.Fences{Next: number.Draw(t, "fence"), End: math.MaxUint64},
	}
	if rapid.Bool().Draw(t, "wanted") {
		m.Flags = protocol.FlagWanted
	}
	return m
}

// TestHostileAgeing: a token that claims more entries than can be does not make
// values overflow.
func TestHostileAgeing(t *testing.T) {
	f := newFigure(t, chang, 5, []int{-1, 0, 1, 1, 1})
	f.ask(0, 0)
	for i := 2; i < 5; i++ {
		f.ask(i, int64(i))
		f.settle()
	}
	f.leave(0)
	f.settle() // 3 is inside; 4 and 5 wait at 2 and are old there
	f.ask(0, 0)
	f.settle()
	f.leave(2)
	f.settle() // 1 is inside again
	m := good(protocol.KindToken)
	m.Number = maxEntries - 1
	if err := f.step(1, &protocol.Input{Kind: protocol.Receive, Message: &m}); err != nil {
		t.Fatal(err)
	}
	if q := f.cores[1].queue; len(q) != 1 || q[0].value != maxValue {
		t.Errorf("%s, want one request of value %d", f.cores[1], int64(maxValue))
	}
}
