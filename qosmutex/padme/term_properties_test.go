package padme

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// Changes of the root: whoever crashes, is cut off, paused or suspected, exclusion holds;
// and as long as anybody lives, everybody is served in the end.

// What comes first is drawn most, and whoever has crashed does little.
var termMoves = append(weighted("short", 10, "reroot", 5, "renew", 6, "renew unheard", 4, "renew twice", 3, "depart root", 6, "restart", 4, "request", 10, "settle", 20, "rejoin", 4, "leave", 4,
	"crash", 1, "crash root", 2, "cut", 2, "cut root", 2, "heal", 5, "pause", 2, "unpause", 5, "suspect", 2, "lapse", 3, "long", 6,
	"lose", 3, "repeat", 2, "later", 3, "silence", 3, "hear", 3), treeMoves...)

// growCandidates draws a tree that arranges itself, in which everybody can be the root.
func (p *player) growCandidates() {
	p.kind = wild
	names := ""
	p.joined = rapid.IntRange(3, 8).Draw(p.t, "nodes")
	for i := range p.joined {
		names += " " + letter(i)
	}
	fresh, begun := "", "advance 8s"
	if rapid.IntRange(0, 3).Draw(p.t, "fresh") == 3 {
		fresh, begun = " fresh=true", "advance 500ms"
	}
	p.line("grow%s models=%v fanout=%d resources=%s%s%s", names, drawModels(p.t), rapid.IntRange(2, 3).Draw(p.t, "fanout"),
		[]string{"x", "x,y"}[rapid.IntRange(0, 1).Draw(p.t, "resources")], p.drawOpen(), fresh)
	for _, name := range p.order {
		if d := rapid.IntRange(-2, 2).Draw(p.t, "drift"); d != 0 {
			p.line("drift %s %g", name, float64(d)*p.timing.Drift/2.02)
		}
	}
	p.line("%s", begun)
	p.line("manual")
}

func (p *player) playTerm(m move) {
	root := p.root()
	switch what, ofRoot := strings.CutSuffix(m.what, " root"); {
	case ofRoot && root != nil && !root.offline:
		p.line("%s %s", what, root.name)
	case ofRoot:
	case m.what == "lose" || m.what == "repeat" || m.what == "later":
		if len(p.pending) > 0 {
			k := p.pending[m.b%len(p.pending)]
			p.line("%s %s %s", m.what, k[0], k[1])
		}
	case m.what == "silence":
		if from, to := p.order[m.a%len(p.order)], p.order[m.b%len(p.order)]; from != to {
			p.line("hold %s %s", from, to)
		}
	case m.what == "hear":
		p.resumeAll()
	case m.what == "reroot":
		p.reroot(m)
	case strings.HasPrefix(m.what, "renew "):
		p.renew(m)
	case m.what == "renew":
		if n := p.pick(m.a, func(n *node) bool { return !n.offline && !n.paused && (m.b%3 == 0 || len(n.inside) > 0) }); n != nil {
			p.line("renew %s", n.name)
		}
	case m.what == "rejoin":
		for _, name := range p.order {
			if n := p.nodes[name]; !n.crashed && !n.paused && n.machine.role == protocol.Departed {
				p.line("crash %s", name)
				p.line("restart %s", name)
				break
			}
		}
	case m.what == "short":
		p.line("advance %dms", 5+m.b*12)
	case m.what != "suspect":
		p.play(m)
	default:
		if n := p.pick(m.a, func(n *node) bool { return !n.paused }); n != nil {
			p.line("suspect %s %s", n.name, p.order[m.b%len(p.order)])
		}
	}
}

// reroot has the root die, and somebody who was started again, as it often is itself, be the
// next one: it knows nobody who may hold.
func (p *player) reroot(m move) {
	root := p.root()
	if root == nil || root.offline || root.paused {
		return
	}
	p.line("crash %s", root.name)
	next := root
	if n := p.pick(m.a, func(n *node) bool { return !n.offline && !n.paused }); n != nil && m.b%3 == 0 {
		p.line("crash %s", n.name)
		next = n
	}
	p.line("restart %s", next.name)
	p.line("appoint %s", next.name)
}

// renew has a holder go on in another process, of which that one does not hear soon: the answer of the root
// is lost, and the root leaves, or is started again at its place, or the holder is; or the holder is started
// again twice.
func (p *player) renew(m move) {
	root := p.root()
	n := p.pick(m.a, func(n *node) bool { return n != root && !n.offline && !n.paused && len(n.inside) > 0 })
	if root == nil || root.offline || root.paused || n == nil {
		return
	}
	p.line("renew %s", n.name)
	if m.what == "renew twice" {
		p.deliverSome(m)
		p.line("renew %s", n.name)
		return
	}
	n = p.nodes[n.name]
	for i := 0; i < 60 && root.machine.role == protocol.Root && root.machine.sessionOf(n.machine.self) == nil; i++ {
		if len(p.pending) == 0 {
			p.line("tick 5ms")
			continue
		}
		k := p.pending[0]
		if p.held[k] {
			p.line("resume %s %s", k[0], k[1])
		}
		p.line("deliver %s %s", k[0], k[1])
	}
	for len(p.channels[[2]string{root.name, n.name}]) > 0 {
		p.line("lose %s %s", root.name, n.name)
	}
	switch m.b % 4 {
	case 0:
		p.line("depart %s", root.name)
		p.line("settle")
	case 1:
		if root.machine.role == protocol.Root && !root.machine.inheriting() && p.record.root == root && !p.record.named {
			members := []protocol.Node{}
			for _, s := range root.machine.members {
				members = append(members, s.node)
			}
			p.line("crash %s", root.name)
			p.line("restart %s", root.name)
			p.record.members = members
			p.line("appoint %s", root.name)
		}
	case 2:
		p.line("renew %s", n.name)
	}
}

func changeTerms(t *rapid.T) {
	p := newPlayer(t, wild)
	p.growCandidates()
	one := rapid.Custom(func(t *rapid.T) move {
		return move{
			rapid.SampledFrom(termMoves).Draw(t, "what"),
			rapid.IntRange(0, 11).Draw(t, "a"), rapid.IntRange(0, 47).Draw(t, "b"),
		}
	})
	for _, m := range rapid.SliceOfN(one, 40, 120).Draw(t, "moves") {
		p.playTerm(m)
	}
	p.resumeAll()
	for _, name := range p.order {
		if p.nodes[name].paused {
			p.line("unpause %s", name)
		}
		if p.nodes[name].offline {
			p.line("heal %s", name)
		}
	}
	p.line("advance 30s")
	if !slices.ContainsFunc(p.order, func(name string) bool { n := p.nodes[name]; return !n.crashed && !n.machine.departing }) {
		return
	}
	if p.root() == nil {
		p.t.Fatalf("somebody lives and nobody is the root\n%s", strings.Join(p.script, "\n"))
	}
	p.line("serve %ds", 40)
	p.line("advance 30s")
	p.line("rest")
	p.line("check")
	p.checkAcyclic()
}

func TestPropertiesOfTerms(t *testing.T) { rapid.Check(t, changeTerms) }

// TestTrustIsWeaker: who trusts a suspicion that is false gets two holders until the
// first one hears of it, though never with one fence.
func TestTrustIsWeaker(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"grow A B C trust=true", "advance 8s", "request C", "request B", "suspect A C"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	if w.failure == nil || w.failure.Error() != "C and B both hold x (fence 1 and 2)" {
		t.Errorf("got %v", w.failure)
	}
	w.advance(2*protocol.Second, true)
	if len(w.nodes["C"].inside) != 0 || len(w.nodes["B"].inside) != 1 {
		t.Error("the first holder does not hear that it lost its hold")
	}
}
