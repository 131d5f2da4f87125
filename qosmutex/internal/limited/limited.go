// Package limited counts what goes beyond limits, and says in the log who did: at most once a
// minute for each limit and each of those who did, so that a flood does not fill the log as well.
package limited

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"padme/internal/throttle"
)

// Limit is a bound on what others can make this process spend.
type Limit struct {
	Name   string // of its flag, or of what it bounds if it has none
	Remedy string // what the operator, or the owner of the program beyond it, can do
}

// maxName cuts a name that a stranger chose.
const maxName = 256

// Log is for limits that are known by their indices.
type Log struct {
	log    *slog.Logger
	kind   string
	limits []Limit
	counts []atomic.Uint64
	told   throttle.Log[by]
}

// by is a limit and who is beyond it.
type by struct {
	limit int
	who   string
}

// New makes the log of some limits. kind is what those are called that may go beyond them, as a
// key of the log.
func New(log *slog.Logger, kind string, limits []Limit) *Log {
	return &Log{log: log, kind: kind, limits: limits, counts: make([]atomic.Uint64, len(limits))}
}

// Count counts that somebody is beyond a limit, and reports whether that is worth a line by now.
// Of those calls that it is worth, the caller calls Tell once it holds no mutex.
func (l *Log) Count(limit int, who string, now time.Time) bool {
	l.counts[limit].Add(1)
	key := by{limit, who[:min(len(who), maxName)]}
	if l.told.Lately(key, now) {
		return false
	}
	key.who = strings.Clone(key.who) // it may be a part of something large
	return l.told.May(key, now)
}

// Tell logs who is beyond a limit, what it is, and what to do; about says where, in pairs.
func (l *Log) Tell(limit int, who string, most int, about ...any) {
	who = strings.ToValidUTF8(who[:min(len(who), maxName)], "")
	for i, v := range about {
		if s, ok := v.(string); ok && len(s) > maxName {
			about[i] = strings.ToValidUTF8(s[:maxName], "")
		}
	}
	pairs := append([]any{"limit", l.limits[limit].Name, "most", most, l.kind, who}, about...)
	l.log.Warn("limit reached", append(pairs, "remedy", l.limits[limit].Remedy)...)
}

// Each calls f with every limit, and how often somebody was beyond it.
func (l *Log) Each(f func(limit string, n uint64)) {
	for i := range l.limits {
		f(l.limits[i].Name, l.counts[i].Load())
	}
}
