// Package seldom says what is worth a line in a log: the same thing at most once a minute,
// however often it happens, so that a flood does not fill the log as well.
package seldom

import (
	"sync"
	"time"
)

const (
	every = time.Minute
	most  = 1024 // things that are remembered; more in a minute are not worth a line
)

// Log remembers what was logged. The zero Log is ready, for several goroutines.
type Log struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// May reports whether what is to be logged now.
func (l *Log) May(what string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.last[what]; known && now.Sub(last) < every {
		return false
	}
	if len(l.last) >= most {
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
		l.last = map[string]time.Time{}
	}
	l.last[what] = now
	return true
}
