package connection

import (
	"testing"
	"time"
)

// TestBackoff: a connection that is lost every few seconds is there again at once; one
// that comes and goes is tried less and less often.
func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		lasts, most time.Duration // each connection; the longest wait
	}{
		{3 * time.Second, minBackoff},
		{1100 * time.Millisecond, minBackoff},
		{900 * time.Millisecond, MaxBackoff},
		{0, MaxBackoff},
	} {
		var wait backoff
		longest := time.Duration(0)
		for range 100 {
			longest = max(longest, wait.next())
			wait.lasted(c.lasts)
		}
		if longest > c.most || longest < c.most/2 {
			t.Errorf("connections of %v: waits up to %v, want %v", c.lasts, longest, c.most)
		}
	}
	wait := backoff(MaxBackoff) // after a long outage
	if wait.lasted(MaxBackoff + 1); wait != 0 {
		t.Errorf("a connection that lasts leaves a wait of %v", time.Duration(wait))
	}
}
