package lease_test

import (
	"flag"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

var (
	firstSeed = flag.Int64("lease.seed", 1, "TestRandom: the first seed")
	seeds     = flag.Int("lease.seeds", 300, "TestRandom: how many")
)

// chance is a network, and the faults of a run, drawn from a seed.
type chance struct {
	*rand.Rand
	w       *world
	loss    float64 // of a request, of an answer and of a beacon
	late    float64 // requests that take seconds
	delay   int     // most milliseconds that a request takes
	quiet   bool    // from now on nothing goes wrong
	created lease.Config
}

func (c *chance) some(most int) protocol.Duration { return protocol.Duration(c.Intn(most)+1) * ms / 4 }

func (c *chance) request(*candidate, lease.RequestKind) (there, back protocol.Duration, lost, answerLost bool) {
	if c.quiet {
		return ms, ms, false, false
	}
	there, back = c.some(c.delay), c.some(c.delay)
	if c.Float64() < c.late {
		there = protocol.Duration(c.Intn(4000)) * ms
	}
	return there, back, c.Float64() < c.loss, c.Float64() < c.loss
}

func (c *chance) beacon(_, _ *candidate) (protocol.Duration, bool) {
	if c.quiet {
		return ms, false
	}
	if c.Float64() < c.late {
		return protocol.Duration(c.Intn(4000)) * ms, false
	}
	return c.some(c.delay), c.Float64() < c.loss
}

// randomWorld draws a topic with two to five candidates.
func randomWorld(seed int64) (*world, *chance) {
	r := rand.New(rand.NewSource(seed))
	w := &world{quiet: true}
	c := &chance{Rand: r, w: w, loss: []float64{0, 0.02, 0.2}[r.Intn(3)], late: []float64{0, 0.01, 0.1}[r.Intn(3)], delay: []int{8, 60, 600}[r.Intn(3)]}
	w.net = c
	w.lease = protocol.Duration(r.Intn(1000)+200) * ms
	c.created = lease.Config{
		Drift: []float64{0, 0.01, 0.1, 0.2}[r.Intn(4)], Create: true, Wall: wall,
		Lease: w.lease, TTL: 2*w.lease + protocol.Duration(r.Intn(2000))*ms,
	}
	for i := range 2 + r.Intn(4) {
		c.start(string(rune('A'+i)), i)
	}
	return w, c
}

func (c *chance) start(name string, rank int) {
	cfg := c.created
	cfg.Self.ID, cfg.Rank = name, rank
	if c.Intn(2) == 0 {
		cfg.Place = name
	}
	if c.Intn(2) == 0 {
		cfg.Settings.ModelsBy = name
	}
	cfg.Settings.Models.Priority = protocol.Priority(c.Intn(4))
	c.w.start(cfg, c.rate())
}

// rate is a clock's, within the drift.
func (c *chance) rate() float64 {
	switch d := c.created.Drift; c.Intn(3) {
	case 0:
		return 1 - d
	case 1:
		return 1 + d
	default:
		return 1 - d + 2*d*c.Float64()
	}
}

// fault does something to a candidate.
func (c *chance) fault() {
	w := c.w
	n := w.all[c.Intn(len(w.all))]
	o := w.all[c.Intn(len(w.all))]
	switch c.Intn(16) {
	case 0, 1:
		w.say("%v crashes", n.self)
		n.crash()
	case 2, 3, 4:
		if n.m == nil || n.m.Status().Departed {
			c.start(n.self.ID, c.Intn(4))
		}
	case 5:
		n.paused = n.m != nil
	case 6:
		n.resume()
	case 7:
		n.cut = !n.cut
	case 8:
		n.away = !n.away
	case 9:
		n.setRate(c.rate())
	case 10, 11:
		if n.acts() && o != n && o.m != nil {
			n.feed(&lease.Input{Successor: o.self})
		}
	case 12:
		if c.Intn(3) == 0 {
			n.feed(&lease.Input{Resign: true})
		}
	case 13:
		if n.acts() {
			n.hear(&protocol.Output{
				WantCeiling: n.m.Status().Entry.Record.Ceiling + uint64(c.Intn(200000)),
				Proposed:    proposal(protocol.Models{Priority: protocol.Priority(c.Intn(4))}, "an operator", c.Intn(2) == 0),
			})
		}
	case 14:
		if c.Intn(4) == 0 && w.now >= w.reg.shut {
			w.say("the register forgets")
			w.reg.forget(w.now, w.lease, c.created.Drift)
			w.oracle.settled = w.reg.entry.Record
		}
	case 15:
		switch c.Intn(3) {
		case 0:
			if rank := c.Intn(4); n.m != nil {
				n.rank(rank)
			}
		case 1: // a lie
			n.hear(beaconOf(lease.Version{Domain: [16]byte{1}, Counter: uint64(c.Intn(1000)), Nonce: 5}, uint64(c.Intn(100)), c.Intn(4)))
		default:
			if o.m == nil && n.m != nil && o != n {
				n.feed(&lease.Input{Died: o.self})
			}
		}
	}
}

// heal ends every fault, and has a candidate run.
func (c *chance) heal() {
	c.quiet = true
	for _, n := range c.w.all {
		n.cut, n.away = false, false
		if n.paused {
			n.resume()
		}
	}
	c.w.advance(2 * c.w.lease) // whoever resigned has departed by then
	if n := c.w.all[0]; n.m == nil || n.m.Status().Departed {
		c.start(n.self.ID, 0)
	}
}

// acts reports whether the candidate is the root by its own clock.
func (c *candidate) acts() bool { return c.m != nil && c.until != 0 && c.local() < c.until }

func randomRun(seed int64) (w *world, terms uint64, err error) {
	w, c := randomWorld(seed)
	for range 150 {
		w.advance(protocol.Duration(c.Intn(int(3 * w.lease / 4))))
		c.fault()
		if w.oracle.failure != nil {
			return w, 0, w.oracle.failure
		}
	}
	c.heal()
	// What was under way for up to four seconds may cost a lease more, and a queue.
	w.advance(4000*ms + 8*w.lease)
	for range 20 {
		w.advance(w.lease / 4)
		acting := 0
		for _, n := range w.all {
			if n.acts() {
				acting++
			}
		}
		if acting != 1 && w.oracle.failure == nil {
			return w, 0, fmt.Errorf("%d act although nothing goes wrong any more", acting)
		}
	}
	return w, w.oracle.term, w.oracle.failure
}

// TestRandom lets everything go wrong at once, in worlds drawn from seeds, and then
// demands that a candidate acts. One seed again, with its story:
//
//	go test ./qosmutex/lease -run TestRandom -lease.seed 17 -lease.seeds 1 -v
func TestRandom(t *testing.T) {
	var terms uint64
	for seed := *firstSeed; seed < *firstSeed+int64(*seeds); seed++ {
		w, n, err := randomRun(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.trace, "\n"))
		}
		if *seeds == 1 {
			t.Log("\n" + strings.Join(w.trace, "\n"))
		}
		terms += n
	}
	t.Logf("%d seeds, %d terms", *seeds, terms)
	if terms < uint64(*seeds)*5 {
		t.Errorf("%d terms in %d seeds: hardly anything goes wrong", terms, *seeds)
	}
}
