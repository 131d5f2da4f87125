package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestNoAllocations runs request, reply, enter, leave and release between a root,
// an inner participant and a leaf, with the two lower ones competing. Once the
// memory that a machine keeps is there, no Step allocates.
func TestNoAllocations(t *testing.T) {
	for _, models := range protocol.Combinations() {
		t.Run(models.String(), func(t *testing.T) {
			c := newCycle(t, models)
			c.outs[0].Explain = true // nor does it to tell of decisions
			for range 100 {
				c.run()
			}
			steps := c.steps
			per := testing.AllocsPerRun(100, c.run)
			if steps = c.steps - steps; steps < 101*8 {
				t.Fatalf("only %d steps in 101 cycles", steps)
			}
			if per != 0 {
				t.Errorf("%v allocations in a cycle of %d steps", per, steps/101)
			}
		})
	}
}

// BenchmarkStep is one step of a machine in the same traffic: among a root, an
// inner participant and a leaf, the copying of messages between them included.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"level-forward-forward-forward", "fair-replace-use-use"} {
		b.Run(name, func(b *testing.B) {
			models, err := protocol.ParseModels(name)
			if err != nil {
				b.Fatal(err)
			}
			c := newCycle(b, models)
			for range 100 {
				c.run()
			}
			b.ReportAllocs()
			b.ResetTimer()
			first := c.steps
			for c.steps-first < b.N {
				c.run()
			}
		})
	}
}

// cycle connects three machines directly, without a copy of any message.
type cycle struct {
	t        testing.TB
	now      protocol.Time
	machines [3]*Machine // root, inner, leaf
	outs     [3]protocol.Output
	queue    []protocol.Message
	inbox    [3]protocol.Message // so that no delivery makes a message escape
	in       protocol.Input
	ref      uint64
	grants   []grantAt
	entries  int
	steps    int
	decided  func([]protocol.Decision) // nil: nothing
}

type grantAt struct {
	at  int
	ref uint64
}

func newCycle(t testing.TB, models protocol.Models) *cycle {
	c := &cycle{t: t, now: protocol.Second}
	for i, name := range []string{"A", "B", "C"} {
		cfg := protocol.Config{
			Self: protocol.Node{ID: name, Incarnation: 1}, Priority: int64(i), Timing: protocol.LAN(),
			Settings: protocol.Settings{Models: models, Resources: []string{"x"}},
			Root:     i == 0,
		}
		if i > 0 {
			cfg.Parent = []string{"A", "B"}[i-1]
		}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.machines[i] = m
		c.step(i, protocol.Input{Kind: protocol.Tick})
		c.deliver()
	}
	if c.machines[2].role != protocol.Member {
		t.Fatal("no tree")
	}
	return c
}

func (c *cycle) step(i int, in protocol.Input) {
	c.steps++
	c.in = in
	out := &c.outs[i]
	if err := c.machines[i].Step(c.now, &c.in, out); err != nil {
		c.t.Fatal(err)
	}
	// A copy of the slices in it is what a codec would make; here their memory is
	// lent for the next hop only, which is delivered before the sender steps.
	c.queue = append(c.queue, out.Messages...)
	if c.decided != nil {
		c.decided(out.Decisions)
	}
	for _, g := range out.Grants {
		c.grants = append(c.grants, grantAt{i, g.Ref})
	}
}

func (c *cycle) deliver() {
	for len(c.queue) > 0 {
		msg := c.queue[0]
		c.queue = c.queue[:copy(c.queue, c.queue[1:])]
		for i, m := range c.machines {
			if m != nil && (msg.To == m.self || msg.To.IsZero() && msg.From != m.self) {
				c.receive(i, msg)
			}
		}
	}
}

func (c *cycle) receive(i int, msg protocol.Message) {
	c.inbox[i] = msg
	c.step(i, protocol.Input{Kind: protocol.Receive, Message: &c.inbox[i]})
}

// run lets C and B ask, and everybody who enters leave again.
func (c *cycle) run() {
	for _, i := range []int{2, 1} {
		c.ref++
		c.step(i, protocol.Input{Kind: protocol.Acquire, Ref: c.ref, Resource: "x"})
	}
	c.deliver()
	for len(c.grants) > 0 {
		g := c.grants[0]
		c.grants = c.grants[:copy(c.grants, c.grants[1:])]
		c.entries++
		c.step(g.at, protocol.Input{Kind: protocol.Leave, Ref: g.ref})
		c.deliver()
	}
	if uint64(c.entries) != c.ref {
		c.t.Fatalf("%d entries after %d requests", c.entries, c.ref)
	}
}
