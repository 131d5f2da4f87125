//go:build linux

package hostile

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// measured is for how long the honest members are measured before an attack.
const measured = time.Second

// effect is what an attack did to the honest members, and to the node's memory.
type effect struct {
	attack         string
	before, during time.Duration // 99th percentiles of waits for the lock
	memory         int64         // resident at most so far, above that before the attack, in bytes
}

// effects are those of all tests, for the table at their end.
var effects struct {
	mu  sync.Mutex
	all []effect
}

// printEffects prints one line for each attack.
func printEffects(w io.Writer) {
	effects.mu.Lock()
	defer effects.mu.Unlock()
	if len(effects.all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "waits p99 before\tduring\tratio\tMB more\t  attack")
	for _, e := range effects.all {
		fmt.Fprintf(t, "%v\t%v\t%.1f\t%d\t  %s\n", e.before.Round(10*time.Microsecond), e.during.Round(10*time.Microsecond),
			float64(e.during)/float64(e.before), e.memory>>20, e.attack)
	}
	_ = t.Flush()
}

// during runs an attack and records how long the honest members wait for the lock before and
// while it runs. It demands that they go on, one at a time; how fast depends on the machine.
func (h *honest) during(t *testing.T, attack func()) {
	t.Helper()
	h.latencies()
	time.Sleep(measured)
	h.goOn(t)
	before, memory := h.latencies(), h.node.memory(t, "VmRSS")
	attack()
	h.goOn(t)
	during := h.latencies()
	if len(before) == 0 || len(during) == 0 {
		t.Fatal("nobody was let in")
	}
	p := func(all []time.Duration, percent int) time.Duration { return all[len(all)*percent/100] }
	e := effect{attack: t.Name(), before: p(before, 99), during: p(during, 99), memory: max(0, h.node.memory(t, "VmHWM")-memory)}
	effects.mu.Lock()
	effects.all = append(effects.all, e)
	effects.mu.Unlock()
	t.Logf("waits for the lock: p50 %v before, %v during; p99 %v before, %v during (%.1f times); longest %v",
		p(before, 50).Round(time.Microsecond), p(during, 50).Round(time.Microsecond), e.before.Round(time.Microsecond), e.during.Round(time.Microsecond),
		float64(e.during)/float64(e.before), during[len(during)-1].Round(time.Millisecond))
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
