package lease_test

import (
	"slices"
	"testing"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// TestDeathCosts measures, for a root that dies at any moment between two renewals, when
// its successor is appointed, and when the grace is over in which it grants nothing that
// may be out elsewhere. Beacons come with each renewal and every eighth of a lease, and
// everything takes a millisecond.
func TestDeathCosts(t *testing.T) {
	const ttl = 3000 * ms
	const span = ttl / 2
	for rank := range 3 {
		var appointed, granting []protocol.Duration
		for phase := protocol.Duration(0); phase < span/4; phase += 5 * ms {
			w := &world{quiet: true, lease: span}
			w.net = &steady{w: w, fates: map[string][]string{}}
			cfg := lease.Config{Drift: 0.01, Create: true, Wall: wall, Lease: span, TTL: ttl}
			cfg.Self.ID = "A"
			w.start(cfg, 1)
			w.advance(20 * ms)
			cfg.Self.ID, cfg.Rank = "B", rank
			b := w.start(cfg, 1)
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
		if most := span*105/100 + span/8 + protocol.Duration(rank)*span/8; appointed[n-1] > most {
			t.Errorf("rank %d: appointed %d ms after a death, at most %d ms are promised", rank, appointed[n-1]/ms, most/ms)
		}
		if granting[n-1] > ttl*13/10 {
			t.Errorf("rank %d: the grace ends %d ms after a death, at most 1.3 TTL are promised", rank, granting[n-1]/ms)
		}
	}
}
