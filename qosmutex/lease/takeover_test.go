package lease_test

import (
	"slices"
	"testing"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// heartbeats is a network over which candidates hear of the root in answers to their
// heartbeats alone.
type heartbeats struct{ steady }

func (h *heartbeats) beacon(from, to *candidate) (protocol.Duration, bool) { return ms, from != to }

// answer has the root answer the heartbeats of another candidate while it lives.
func (h *heartbeats) answer(root, to *candidate, every protocol.Duration) {
	if root.m == nil {
		return
	}
	if v, term := root.version, root.term; root.acts() {
		h.w.after(ms, func() { to.hear(beaconOf(v, term, to.cfg.Rank)) })
	}
	h.w.after(every, func() { h.answer(root, to, every) })
}

// TestDeathCosts measures, for a root that dies at any moment between two renewals and two
// heartbeats, when its successor is appointed, and when the grace is over in which it grants
// nothing that may be out elsewhere. Everything takes a millisecond.
func TestDeathCosts(t *testing.T) {
	const ttl = 3000 * ms
	const span, heartbeat = ttl / 2, 700 * ms
	for rank := range 3 {
		var appointed, granting []protocol.Duration
		for phase := protocol.Duration(0); phase < span/4*heartbeat/(25*ms); phase += 13 * ms {
			w := &world{quiet: true, lease: span, reg: registry{born: -protocol.MaxTTL}}
			net := &heartbeats{steady{w: w, fates: map[string][]string{}}}
			w.net = net
			cfg := lease.Config{Drift: 0.01, Create: true, Wall: wall, Lease: span, TTL: ttl}
			cfg.Self.ID = "A"
			w.start(cfg, 1)
			w.advance(20 * ms)
			cfg.Self.ID, cfg.Rank = "B", rank
			b := w.start(cfg, 1)
			net.answer(w.find("A"), b, heartbeat)
			w.advance(4*span + phase)
			w.find("A").crash()
			died := w.now
			for !b.acts() && w.now < died+5*ttl {
				w.advance(ms)
			}
			if w.oracle.failure != nil {
				t.Fatal(w.oracle.failure)
			}
			appointed = append(appointed, w.now-died)
			granting = append(granting, max(w.now, b.trueTime(b.heard)+protocol.Timing{TTL: ttl, Drift: 0.01}.Grace())-died)
		}
		slices.Sort(appointed)
		slices.Sort(granting)
		n := len(appointed)
		t.Logf("rank %d, %d deaths: appointed after %d ms in the median, %d at most; grants everything after %d ms (%.2f TTL) in the median, %d at most (%.2f TTL)",
			rank, n, appointed[n/2]/ms, appointed[n-1]/ms, granting[n/2]/ms, float64(granting[n/2])/float64(ttl), granting[n-1]/ms, float64(granting[n-1])/float64(ttl))
		if most := span*105/100 + span*3/8 + protocol.Duration(rank)*span/8; appointed[n-1] > most {
			t.Errorf("rank %d: appointed %d ms after a death, at most %d ms are promised", rank, appointed[n-1]/ms, most/ms)
		}
		if most := ttl*122/100 + protocol.Duration(rank)*ttl/16; granting[n-1] > most {
			t.Errorf("rank %d: the grace ends %d ms after a death, at most %d ms are promised", rank, granting[n-1]/ms, most/ms)
		}
	}
}
