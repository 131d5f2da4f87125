package classic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// anything makes messages, and what the application does, of arbitrary bytes. It
// prefers what is nearly right: names and clocks that are in use.
type anything struct{ data []byte }

func (a *anything) byte() byte {
	if len(a.data) == 0 {
		return 0
	}
	b := a.data[0]
	a.data = a.data[1:]
	return b
}

func (a *anything) number() uint64 {
	b := a.byte()
	if b >= 250 {
		return math.MaxUint64 >> ((b - 250) * 3)
	}
	return uint64(b)
}

func (a *anything) node() protocol.Node {
	return protocol.Node{ID: []string{"A", "B", "C", "D", "E", "F", "X", ""}[a.byte()%8], Incarnation: 1}
}

var algorithmKinds = []protocol.Kind{
	protocol.KindRequest, protocol.KindReply, protocol.KindRelease, protocol.KindWithdraw, protocol.KindToken,
	protocol.KindAck, protocol.KindFailed, protocol.KindInquire, protocol.KindYield, protocol.KindBeacon,
}

func (a *anything) message(to string, clock uint64) *protocol.Message {
	m := &protocol.Message{
		Kind: algorithmKinds[int(a.byte())%len(algorithmKinds)], From: a.node(), To: protocol.Node{ID: to},
		Resource: crane, ID: protocol.RequestID{Node: a.node(), Clock: a.number()}, Clock: a.number(),
	}
	if b := a.byte(); b%4 == 0 {
		m.ID.Node.ID = to
	} else if b%4 < 3 {
		m.ID.Node = m.From
	}
	if a.byte()%2 == 0 {
		m.ID.Clock = clock
	}
	m.Fences.Next = a.number()
	if m.Fences.End = m.Fences.Next; a.byte()%8 == 0 {
		m.Fences.End = a.number()
	}
	m.Hops, m.Number, m.Priority = uint32(a.number()), a.number(), int64(a.number())
	for range a.byte() % 3 {
		m.Path = append(m.Path, a.node())
	}
	for range a.byte() % 4 {
		m.Wishes = append(m.Wishes, protocol.Wish{ID: protocol.RequestID{Node: a.node(), Clock: a.number()}, Priority: int64(a.number())})
	}
	return m
}

// cores are the cores of the algorithms by name, to look into them.
var cores = map[string]func(*static.Env) static.Core{
	"central":          func(e *static.Env) static.Core { return newCentral(e, false) },
	"central-fifo":     func(e *static.Env) static.Core { return newCentral(e, true) },
	"token-ring":       newRing,
	"lamport":          newLamport,
	"ricart-agrawala":  newRicart,
	"maekawa":          func(e *static.Env) static.Core { return newMaekawa(e, true) },
	"maekawa-naive":    func(e *static.Env) static.Core { return newMaekawa(e, false) },
	"voting":           func(e *static.Env) static.Core { return newVoting(e, 0) },
	"voting-forgetful": func(e *static.Env) static.Core { return newVoting(e, protocol.Second) },
	"suzuki-kasami":    newSuzuki,
	"naimi-trehel":     newNaimi,
}

// inner is everything that a core keeps.
func inner(c static.Core) string {
	if c, ok := c.(*central); ok && c.server != nil {
		return fmt.Sprintf("%+v %+v", *c, *c.server)
	}
	return fmt.Sprintf("%+v", c)
}

// FuzzReceive puts whatever there may be between the messages of correct participants.
// None must panic, change by what it refuses, grow, or say what cannot be sent.
// Exclusion and service may be lost to a forger; that is not looked at here.
func FuzzReceive(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		seed := make([]byte, 900)
		for i := range seed {
			seed[i] = byte(r.Uint32())
			if r.IntN(2) == 0 {
				seed[i] %= 8
			}
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1500)]
		for _, a := range All() {
			receiveAnything(t, a, data)
		}
	})
}

func receiveAnything(t *testing.T, a protocol.Algorithm, data []byte) {
	const n = 5
	var parts [n]static.Core
	a.New = machine(func(e *static.Env) static.Core {
		parts[e.Self] = cores[a.Name](e)
		return parts[e.Self]
	})
	w := newWorld(a, letters(n), 1)
	for i := range n {
		w.ask(i)
	}
	b := anything{data}
	for len(b.data) > 0 {
		i := int(b.byte() % n)
		switch op, nd := b.byte()%16, w.nodes[i]; {
		case op == 0 && len(nd.refs) < 3:
			w.ask(i)
		case op == 1 && nd.inside != 0:
			w.leave(i)
		case op == 2 && len(nd.refs) > 0:
			w.withdraw(i, 0)
		case op == 3:
			w.pass(tm)
		case op < 8:
			w.advance(protocol.Never - 1)
		default:
			w.forged(t, i, &b, parts[i])
		}
		w.failure = nil // a correct participant's message may be refused after a forged one
		if w.broken != nil {
			t.Fatalf("%s: %v", a.Name, w.broken)
		}
		if d := inner(parts[i]); len(d) > 4096 {
			t.Fatalf("%s: has grown to %s", a.Name, d)
		}
	}
}

// forged lets participant i receive something.
func (w *world) forged(t *testing.T, i int, b *anything, core static.Core) {
	w.step(i, protocol.Input{Kind: protocol.Tick}) // what is due comes with it otherwise
	clock := uint64(0)
	s, _ := w.nodes[i].m.(*static.Machine).Resource(crane, 1)
	if s.Inside {
		clock = s.Target.Clock
	} else if len(s.Queue) > 0 {
		clock = s.Queue[0].ID.Clock
	}
	m, before, sent := b.message(w.names[i], clock), inner(core), w.seq
	w.step(i, protocol.Input{Kind: protocol.Receive, Message: m})
	if w.refused != nil && (w.seq != sent || inner(core) != before) {
		t.Fatalf("refused %s (%v), and changed\n%s\n%s", describe(m), w.refused, before, inner(core))
	}
}
