// Package cache holds what a reader has received until its application takes it: samples
// by instance, what state each instance is in, who owns it, what is in order, in time, and
// not too much. It knows neither the protocol by which samples come nor their types.
package cache

import "time"

// Policies are those on which a cache depends. Package pubsub says what they mean (QoS).
type Policies struct {
	Reliable        bool
	Transient       bool // it gets samples of writers that are gone
	KeepAll         bool
	Depth           int // of keep last
	MaxSamples      int
	MaxInstances    int
	Exclusive       bool
	BySourceTime    bool
	Deadline        time.Duration // 0: none
	TimeBasedFilter time.Duration // 0: none
}

// Adapt takes over what can be changed: Deadline and TimeBasedFilter.
func (c *Cache) Adapt(p *Policies, now time.Time) {
	if p.Deadline != c.policies.Deadline {
		c.watch(p.Deadline, now)
	}
	if p.TimeBasedFilter != c.policies.TimeBasedFilter {
		c.separation.due = now
	}
	c.policies.Deadline, c.policies.TimeBasedFilter = p.Deadline, p.TimeBasedFilter
}
