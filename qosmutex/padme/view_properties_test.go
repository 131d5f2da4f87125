package padme

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// Elections: whoever crashes, is cut off, paused or suspected, exclusion holds; and
// as long as a majority of the voters lives, everybody is served in the end.

var viewMoves = append(weighted("crash", 1, "crash root", 2, "cut", 2, "cut root", 2, "heal", 5, "pause", 2, "unpause", 5,
	"suspect", 2, "lapse", 3, "long", 6, "request", 10, "settle", 20, "leave", 4, "lose", 3, "repeat", 2, "later", 3,
	"silence", 3, "hear", 3), treeMoves...)

// growVoters draws a tree that arranges itself, in which some vote.
func (p *player) growVoters() {
	p.kind = wild
	names := ""
	p.joined = rapid.IntRange(3, 8).Draw(p.t, "nodes")
	for i := range p.joined {
		names += " " + letter(i)
	}
	p.line("grow%s voters=%d models=%v fanout=%d resources=%s", names, rapid.IntRange(1, 2).Draw(p.t, "voters")*2+1,
		allModels()[rapid.IntRange(0, 31).Draw(p.t, "models")], rapid.IntRange(2, 3).Draw(p.t, "fanout"),
		[]string{"x", "x,y"}[rapid.IntRange(0, 1).Draw(p.t, "resources")])
	for _, name := range p.order {
		if d := rapid.IntRange(-2, 2).Draw(p.t, "drift"); d != 0 {
			p.line("drift %s %g", name, float64(d)*p.timing.Drift/2.02)
		}
	}
	p.line("advance 8s")
	p.line("manual")
}

func (p *player) playVoted(m move) {
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
	case m.what != "suspect":
		p.play(m)
	default:
		if n := p.pick(m.a, func(n *node) bool { return !n.paused }); n != nil {
			p.line("suspect %s %s", n.name, p.order[m.b%len(p.order)])
		}
	}
}

// electable reports whether the newest voters that anybody living knows of can
// still elect.
func (p *player) electable() bool {
	var newest *electorate
	for _, n := range p.nodes {
		if n.crashed || n.machine.ballot == nil || len(n.machine.ballot.of.voters) == 0 {
			continue
		}
		if of := &n.machine.ballot.of; newest == nil || newest.compare(of.epoch, of.version) < 0 {
			newest = of
		}
	}
	if newest == nil {
		return false
	}
	living := 0
	for _, v := range newest.voters {
		if n := p.nodes[v.ID]; n.machine.self == v && !n.crashed && !n.machine.departing {
			living++
		}
	}
	return living > len(newest.voters)/2
}

func voted(t *rapid.T) {
	p := newPlayer(t, wild)
	p.growVoters()
	one := rapid.Custom(func(t *rapid.T) move {
		return move{
			rapid.SampledFrom(viewMoves).Draw(t, "what"),
			rapid.IntRange(0, 11).Draw(t, "a"), rapid.IntRange(0, 47).Draw(t, "b"),
		}
	})
	for _, m := range rapid.SliceOfN(one, 40, 120).Draw(t, "moves") {
		p.playVoted(m)
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
	can := p.electable()
	p.line("advance 30s")
	if !can && p.root() == nil {
		return
	}
	if p.root() == nil {
		p.t.Fatalf("a majority lives and elects nobody\n%s", strings.Join(p.script, "\n"))
	}
	p.line("serve %ds", 40)
	p.line("advance 30s")
	p.line("rest")
	p.line("check")
}

func TestPropertiesOfViews(t *testing.T) { rapid.Check(t, voted) }

// TestQuorum: it is what just a majority has reached.
func TestQuorum(t *testing.T) {
	for n := 1; n <= mostVoters; n++ {
		nodes := make([]protocol.Node, n)
		reached := map[protocol.Node]int{}
		for i := range nodes {
			nodes[i] = protocol.Node{ID: fmt.Sprint(i), Incarnation: 1}
			reached[nodes[i]] = n - i
		}
		q := quorum(nodes, func(v protocol.Node) int { return reached[v] })
		at := 0
		for _, v := range nodes {
			if reached[v] >= q {
				at++
			}
		}
		if at != n/2+1 {
			t.Errorf("of %d, %d have reached what the majority is said to have", n, at)
		}
	}
}

// TestTrustIsWeaker: who trusts a suspicion that is false gets two holders until the
// first one hears of it, though never with one fence.
func TestTrustIsWeaker(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"grow A B C voters=3 trust=true", "advance 8s", "request C", "request B", "suspect A C"} {
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
