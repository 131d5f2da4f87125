package padme

import (
	"runtime"
	"strconv"
	"testing"

	"padme/qosmutex/protocol"
)

// crowd runs many machines in one static tree, every message at once and in the
// order of sending. A message waits as bytes, as it does on a network.
type crowd struct {
	t        testing.TB
	now      protocol.Time
	machines []*Machine
	index    map[string]int
	out      protocol.Output
	wires    [][]byte
	spare    [][]byte
	to       []int
	decoder  protocol.Decoder
	message  protocol.Message
	ref      uint64
	inside   []held
	entries  int
}

type held struct {
	at    int
	grant protocol.Granted
}

func newCrowd(t testing.TB, n, fanout int, models protocol.Models) *crowd {
	c := &crowd{t: t, now: protocol.Second, index: make(map[string]int, n)}
	timing := protocol.LAN()
	timing.TTL, timing.Heartbeat = 1000*protocol.Second, 250*protocol.Second
	for i := range n {
		cfg := protocol.Config{
			Self: protocol.Node{ID: "n" + strconv.Itoa(i), Incarnation: 1}, Timing: timing, Fanout: fanout,
			Settings: protocol.Settings{Models: models, Resources: []string{"crane"}},
			Root:     i == 0,
		}
		if i > 0 {
			parent := c.machines[(i-1)/fanout]
			cfg.Parent, cfg.Priority = parent.self.ID, parent.priority+1
		}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.index[cfg.Self.ID] = i
		c.machines = append(c.machines, m)
		c.step(i, &protocol.Input{Kind: protocol.Tick})
		c.settle()
		if m.role != protocol.Member && i > 0 {
			t.Fatalf("%v is %v", m.self, m.role)
		}
	}
	return c
}

func (c *crowd) step(i int, in *protocol.Input) {
	m := c.machines[i]
	if err := m.Step(c.now, in, &c.out); err != nil {
		c.t.Fatal(err)
	}
	for j := range c.out.Messages {
		msg := &c.out.Messages[j]
		to, ok := c.index[msg.To.ID]
		if msg.To.IsZero() { // a Join: only the parent would answer
			to, ok = c.index[msg.Parent.ID]
		}
		if !ok {
			continue
		}
		var wire []byte
		if n := len(c.spare); n > 0 {
			wire, c.spare = c.spare[n-1][:0], c.spare[:n-1]
		}
		c.wires, c.to = append(c.wires, protocol.AppendMessage(wire, msg)), append(c.to, to)
	}
	for _, g := range c.out.Grants {
		c.entries++
		c.inside = append(c.inside, held{i, g})
	}
}

// deliver delivers everything, also what follows from it.
func (c *crowd) deliver() {
	for len(c.wires) > 0 {
		wires, to := c.wires, c.to
		c.wires, c.to = nil, nil
		for i, wire := range wires {
			if err := c.decoder.Decode(wire, &c.message); err != nil {
				c.t.Fatal(err)
			}
			c.spare = append(c.spare, wire)
			c.step(to[i], &protocol.Input{Kind: protocol.Receive, Message: &c.message})
		}
	}
}

// settle lets everybody who enters leave at once, until nobody waits.
func (c *crowd) settle() {
	for c.deliver(); len(c.inside) > 0; c.deliver() {
		c.leave()
	}
}

// leave lets the one who entered first leave.
func (c *crowd) leave() {
	h := c.inside[0]
	c.inside = c.inside[:copy(c.inside, c.inside[1:])]
	c.step(h.at, &protocol.Input{Kind: protocol.Leave, Ref: h.grant.Ref})
}

// ask makes a request of priority p and returns its Ref.
func (c *crowd) ask(i int, p int64) uint64 {
	c.ref++
	c.step(i, &protocol.Input{Kind: protocol.Acquire, Ref: c.ref, Resource: "crane", Priority: p, Fixed: true})
	return c.ref
}

// all lets everybody ask once.
func (c *crowd) all() {
	for i := range c.machines {
		c.ref++
		c.step(i, &protocol.Input{Kind: protocol.Acquire, Ref: c.ref, Resource: "crane"})
	}
	c.settle()
}

func heapInUse() uint64 {
	var ms runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// TestMemory checks what a participant of a large tree takes, with both ends of its
// link and what the root keeps for it, when everybody has waited and entered.
func TestMemory(t *testing.T) {
	const n, limit = 5000, 3000 // bytes; some 2900, with the names and what the test itself keeps
	for _, name := range []string{"fair-replace-use-use", "level-forward-forward-forward"} {
		models, err := protocol.ParseModels(name)
		if err != nil {
			t.Fatal(err)
		}
		before := heapInUse()
		c := newCrowd(t, n, 8, models)
		for range 3 {
			c.all()
		}
		if c.entries != 3*n {
			t.Fatalf("%d entries of %d", c.entries, 3*n)
		}
		c.spare, c.wires, c.to, c.index, c.out = nil, nil, nil, nil, protocol.Output{}
		each := (heapInUse() - before) / n
		t.Logf("%s: %d bytes each", name, each)
		if each > limit {
			t.Errorf("%s: a participant takes %d bytes, more than %d", name, each, limit)
		}
		runtime.KeepAlive(c)
	}
}
