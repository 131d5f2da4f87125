// Package bubble runs a test in virtual time, as testing/synctest does, and also
// when the race detector watches.
//
// Go 1.26's detector keeps one context for all the timers of a bubble. Two
// threads that run channel timers of one bubble at the same moment both write to
// it and the process dies in the detector's own code ("ThreadSanitizer: CHECK
// failed", or a SIGSEGV without a stack): several goroutines that select on
// tickers are enough. One processor at a time keeps the context single, so a
// bubble under the detector gets no more than that.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test. With the race detector the program has one processor
// while any bubble runs; tests may run bubbles in parallel.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if RaceDetector {
		single.enter()
		defer single.leave()
	}
	synctest.Test(t, f)
}

var single processors

// processors counts the bubbles that want a single one.
type processors struct {
	mu      sync.Mutex
	bubbles int
	before  int // GOMAXPROCS outside of bubbles
}

func (p *processors) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bubbles++; p.bubbles == 1 {
		p.before = runtime.GOMAXPROCS(1)
	}
}

func (p *processors) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bubbles--; p.bubbles == 0 {
		runtime.GOMAXPROCS(p.before)
	}
}
