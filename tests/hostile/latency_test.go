//go:build linux

package hostile

import (
	"slices"
	"testing"
	"time"
)

// measured is for how long the honest members are measured before an attack.
const measured = time.Second

// during runs an attack and prints how long the honest members wait for the lock before and
// while it runs. It demands that they go on, one at a time; how fast depends on the machine.
func (h *honest) during(t *testing.T, attack func()) {
	t.Helper()
	h.latencies()
	time.Sleep(measured)
	h.goOn(t)
	before := h.latencies()
	attack()
	h.goOn(t)
	during := h.latencies()
	if len(before) == 0 || len(during) == 0 {
		t.Fatal("nobody was let in")
	}
	p := func(all []time.Duration, percent int) time.Duration {
		return all[len(all)*percent/100].Round(time.Microsecond)
	}
	t.Logf("waits for the lock: p50 %v before, %v during (%.1f times); p99 %v before, %v during (%.1f times); longest %v",
		p(before, 50), p(during, 50), float64(p(during, 50))/float64(p(before, 50)),
		p(before, 99), p(during, 99), float64(p(during, 99))/float64(p(before, 99)), during[len(during)-1].Round(time.Millisecond))
}

// latencies returns the waits since the last call, the shortest first.
func (h *honest) latencies() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.waits
	h.waits = nil
	slices.Sort(all)
	return all
}
