package padme

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// A relay that has passed a grant on to a participant far below, and does not know that it
// has died, forgets the grant like one that has come back.
func TestAGrantOfTheDeadIsForgotten(t *testing.T) {
	for _, dies := range []bool{true, false} {
		w := newWorld()
		w.quiet = true
		lines := []string{"tree A(B(C(D E))) models=level-forward-forward-forward resources=x open=true idle=1", "request D o0"}
		if dies {
			lines = append(lines, "crash D", "advance 10s")
		}
		for i := range 6 {
			lines = append(lines, fmt.Sprintf("request E o%d", i+1), fmt.Sprintf("leave E o%d", i+1))
		}
		for _, line := range lines {
			if err := w.do(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		for _, name := range []string{"B", "C"} {
			if known := w.nodes[name].machine.find("o0") != nil; known == dies {
				t.Errorf("the holder dies %v: %s remembers its grant: %v", dies, name, known)
			}
		}
		if w.failure != nil {
			t.Error(w.failure)
		}
	}
}

// forgettingMoves are aimed at what is forgotten while it is needed: two undeclared resources
// are held for long, deep in the tree, while others come and go, and links are held up or cut.
var forgettingMoves = weighted("name", 30, "keep", 8, "let go", 2, "hold", 2, "silence", 6, "resume", 4, "cut", 1, "heal", 2,
	"join", 6, "depart", 1, "priority", 4, "advance", 6, "tick", 2, "long", 1, "deliver", 4)

// playForgetting plays a move of those.
func (p *player) playForgetting(m move) {
	running := func(n *node) bool { return !n.paused && n.machine.role == protocol.Member && !n.machine.departing }
	switch m.what {
	case "name":
		n := p.pick(m.a, running)
		if n == nil {
			return
		}
		name := fmt.Sprint("o", 3+m.b%3)
		if slices.ContainsFunc(n.refs, func(r request) bool { return r.resource == name }) {
			return
		}
		p.line("request %s %s%s", n.name, name, p.onBehalf(n.name))
		p.line("settle")
		if _, inside := n.inside[name]; inside {
			p.line("leave %s %s", n.name, name)
		} else if slices.ContainsFunc(n.refs, func(r request) bool { return r.resource == name }) {
			p.line("withdraw %s %s", n.name, name)
		}
	case "keep":
		if n := p.pick(m.a, func(n *node) bool { return running(n) && n.machine.depth > 1 && len(n.refs) == 0 }); n != nil {
			p.line("request %s o%d%s", n.name, 1+m.b%2, p.onBehalf(n.name))
			p.line("settle")
		}
	case "let go":
		if n := p.pick(m.a, func(n *node) bool { return running(n) && len(n.inside) > 0 }); n != nil {
			p.leaveOne(n)
		}
	case "silence": // what it is asked about a token, say
		root, n := p.root(), p.pick(m.a, running)
		if root == nil || n == nil || root.machine.departing {
			return
		}
		if !p.holding() {
			p.heldSince = p.now
		}
		p.line("hold %s %s", root.name, n.name)
	default:
		p.play(m)
	}
}

func forgetMuch(t *rapid.T) {
	p := newPlayer(t, faulty)
	use := rapid.SampledFrom([]string{"forward-use-forward", "forward-forward-use", "forward-use-use"}).Draw(t, "models")
	p.line("tree A models=level-%s fanout=%d resources=x open=true idle=1", use, rapid.IntRange(1, 2).Draw(t, "fanout"))
	p.joined = 1
	for range rapid.IntRange(2, 5).Draw(t, "joiners") {
		p.join(rapid.IntRange(1, 5).Draw(t, "p"))
	}
	p.line("manual")
	one := rapid.Custom(func(t *rapid.T) move {
		return move{
			rapid.SampledFrom(forgettingMoves).Draw(t, "what"),
			rapid.IntRange(0, 11).Draw(t, "a"), rapid.IntRange(0, 47).Draw(t, "b"),
		}
	})
	for _, m := range rapid.SliceOfN(one, 60, 150).Draw(t, "moves") {
		p.playForgetting(m)
	}
	p.finish()
}

func TestPropertiesOfForgetting(t *testing.T) { rapid.Check(t, forgetMuch) }
