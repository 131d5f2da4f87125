// Package throttle says which lines of a log are due: the same one at most once a minute,
// however often it happens, so that a flood does not fill the log as well.
package throttle

import (
	"sync"
	"time"
)

const (
	every = time.Minute
	most  = 1024        // things that are remembered; more in a minute are not worth a line
	pause = time.Second // between two searches for what can be forgotten
)

// Log remembers what was logged, which K names. The zero Log is ready, for several goroutines.
type Log[K comparable] struct {
	mu    sync.Mutex
	last  map[K]time.Time
	swept time.Time
}

// Lately reports whether May would say no because what was logged less than a minute ago.
func (l *Log[K]) Lately(what K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.last[what]
	return known && now.Sub(last) < every
}

// May reports whether what is to be logged now.
func (l *Log[K]) May(what K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.last[what]
	if known && now.Sub(last) < every {
		return false
	}
	if !known && len(l.last) >= most {
		if now.Sub(l.swept) < pause {
			return false
		}
		l.swept = now
		for k, last := range l.last {
			if now.Sub(last) >= every {
				delete(l.last, k)
			}
		}
		if len(l.last) >= most {
			return false
		}
	}
	if l.last == nil {
		l.last = map[K]time.Time{}
	}
	l.last[what] = now
	return true
}
