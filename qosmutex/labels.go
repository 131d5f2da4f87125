package qosmutex

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/internal/throttle"
)

const (
	// maxNamed is of how many lock topics a server has metrics under their names by default:
	// each has some 170 series.
	maxNamed = 100
	// maxNamedResources is of how many declared resources a lock topic has series.
	maxNamedResources = 64
	// labelKept is how long the name of a topic that was closed keeps its place. A monitoring
	// system keeps the series of each name that it ever saw, so whoever names one lock topic
	// after the other must not get new series for them.
	labelKept = 24 * time.Hour
)

// label is what a lock topic may name in its metrics. It outlives the topic.
type label struct {
	resources map[string]bool // that have a series; only the topic's collections touch it
	left      time.Time       // when the topic was closed; zero: it is open
}

func newLabel() *label { return &label{resources: map[string]bool{}} }

// names reports whether a declared resource has a series of its own; never without a label.
func (l *label) names(resource string) bool {
	if l == nil {
		return false
	}
	if !l.resources[resource] && len(l.resources) < maxNamedResources {
		l.resources[resource] = true
	}
	return l.resources[resource]
}

// labels are the names under which a server has metrics of lock topics. Those of all others
// are added up in one set, whose label lock is empty.
type labels struct {
	most  int
	crowd *crowd

	mu    sync.Mutex
	named map[string]*label
	told  throttle.Log[string]
}

func newLabels(most int) *labels {
	return &labels{most: most, crowd: newCrowd(), named: map[string]*label{}}
}

// take returns the label of a topic that is about to open; nil: it gets none.
func (l *labels) take(name string) *label {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.named[name] == nil {
		if len(l.named) >= l.most && !l.makeRoom(now) {
			return nil
		}
		l.named[name] = newLabel()
	}
	l.named[name].left = time.Time{}
	return l.named[name]
}

// tell logs that a topic, whose log it is, has no metrics under its name, and how many have not.
func (l *labels) tell(log *slog.Logger) {
	if l.told.May("full", time.Now()) {
		log.Warn("limit reached", "limit", "max-metrics-locks", "most", l.most, "left out", l.crowd.size(),
			"remedy", "read the metrics of the others together, where the label lock is empty, or raise TopicLimits.Named (--max-metrics-locks)")
	}
}

// makeRoom drops the name of the topic that was closed first, if that is long ago.
func (l *labels) makeRoom(now time.Time) bool {
	oldest, since := "", now.Add(-labelKept)
	for name, n := range l.named {
		if !n.left.IsZero() && !n.left.After(since) {
			oldest, since = name, n.left
		}
	}
	delete(l.named, oldest)
	return oldest != ""
}

// leave notes that a topic was closed.
func (l *labels) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.named[name]; n != nil {
		n.left = time.Now()
	}
}

// crowd has the metrics of lock topics that have no label of their own, added up. It is a
// prometheus.Collector.
type crowd struct {
	times

	mu   sync.Mutex
	of   map[*metrics]bool
	past sums // counters of topics that were closed
}

func newCrowd() *crowd { return &crowd{times: newTimes(), of: map[*metrics]bool{}, past: sums{}} }

func (c *crowd) enter(m *metrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[m] = true
}

// size is how many lock topics it has the metrics of.
func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

func (c *crowd) leave(m *metrics) {
	all, _ := m.sample()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, m)
	for _, f := range all {
		if f.kind == prometheus.CounterValue {
			c.past.add(f)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *crowd) Describe(ch chan<- *prometheus.Desc) { describe(&c.times, ch) }

// Collect implements prometheus.Collector.
func (c *crowd) Collect(ch chan<- prometheus.Metric) {
	all := c.sample()
	if len(all) == 0 {
		return // each topic has a label of its own
	}
	c.each(true, func(h prometheus.Histogram) { h.Collect(ch) })
	for _, f := range all {
		ch <- f.metric()
	}
}

// sample reads the numbers without blocking on the channel of a collection. It takes the mutex
// of one topic after the other; nobody takes that of the crowd under one of those.
func (c *crowd) sample() sums {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := sums{}
	for _, f := range c.past {
		sum.add(*f)
	}
	for m := range c.of {
		all, _ := m.sample()
		for _, f := range all {
			sum.add(f)
		}
	}
	return sum
}

// sums adds up figures, by what they are of. Of how long something is held it keeps the longest.
type sums map[string]*figure

func (s sums) add(f figure) {
	key := fmt.Sprintf("%p %s", f.desc, strings.Join(f.labels, " "))
	is := s[key]
	switch {
	case is == nil:
		s[key] = &f
	case f.desc == heldDesc:
		is.value = max(is.value, f.value)
	default:
		is.value += f.value
	}
}
