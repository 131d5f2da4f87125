package sim

import (
	"slices"

	"padme/qosmutex/protocol"
)

// Inversions count how often a less important request was served first. An entry
// overtakes a request if, at its moment, that request waits for the same resource
// and is strictly more important. Priorities are those that the applications asked
// with (a participant's own: as last set), whatever a machine made of them.
// Requests for Any can overtake, but are not overtaken.
type Inversions struct {
	Pending uint64 // pairs of an entry and a request that it overtook
	// Known are those of Pending that whoever let the entry happen could have
	// avoided: the overtaken request had waited for longer than a request takes from
	// the deepest participant to the root and a permission back, which is twice the
	// height of the tree times the greatest latency. Where the scenario has no
	// tree, the complete one of Fanout stands for it (0: 2). Of a latency without a
	// bound, the value that one draw in a thousand exceeds is taken.
	Known      uint64
	Overtakers int // entries that overtook at least one request
	Victims    int // entries whose request had been overtaken: the violations of the SLA paper (§IV-A)
}

// overtaking is what one resource remembers to count Inversions at a small cost
// for each request and entry, however many wait.
type overtaking struct {
	// How many wait of each priority, the most important first, and how many of
	// them are ripe: would be Known.
	priorities []int64
	waiting    []int32
	ripe       []int32
	// The requests that are not ripe yet, in the order in which they become so. Some
	// are over already.
	fresh []ripening
	next  int // the first of fresh
	// Which entry was the last with as low an importance: numbers rise, priorities
	// fall. A request has been overtaken if the first one made since it
	// has its priority was less important.
	entries uint64
	peaks   []peak
}

type ripening struct {
	ref   uint64
	since protocol.Time
}

type peak struct {
	entry    uint64
	priority int64
}

// class is the place of a priority, made when it is first needed.
func (o *overtaking) class(priority int64) int {
	i, found := slices.BinarySearch(o.priorities, priority)
	if !found {
		o.priorities = slices.Insert(o.priorities, i, priority)
		o.waiting = slices.Insert(o.waiting, i, 0)
		o.ripe = slices.Insert(o.ripe, i, 0)
	}
	return i
}

// join notes that the call in slot waits for r.
func (s *Sim) join(r *resource, slot int32) {
	o, c := &r.overtaking, &s.calls[slot]
	c.stamp = o.entries
	o.waiting[o.class(c.priority)]++
	s.ripen(o)
	o.fresh = append(o.fresh, ripening{c.ref, c.since})
}

// quit notes that c no longer waits.
func (o *overtaking) quit(c *call) {
	i := o.class(c.priority)
	o.waiting[i]--
	if c.ripe {
		o.ripe[i]--
	}
}

// reprioritize changes the priority of a call that waits.
func (o *overtaking) reprioritize(c *call, priority int64) {
	o.quit(c)
	c.victim = o.overtaken(c)
	c.priority, c.stamp = priority, o.entries
	i := o.class(priority)
	o.waiting[i]++
	if c.ripe {
		o.ripe[i]++
	}
}

// ripen moves the requests that have waited long enough, and forgets those that no
// longer wait.
func (s *Sim) ripen(o *overtaking) {
	for ; o.next < len(o.fresh); o.next++ {
		f := &o.fresh[o.next]
		slot, ok := s.find(f.ref)
		if !ok || s.calls[slot].inside {
			continue
		}
		if s.now-f.since <= s.knownAfter {
			break
		}
		c := &s.calls[slot]
		c.ripe = true
		o.ripe[o.class(c.priority)]++
	}
	if o.next > len(o.fresh)/2 {
		o.fresh = o.fresh[:copy(o.fresh, o.fresh[o.next:])]
		o.next = 0
	}
}

// overtake counts whom the entry of c overtakes, and returns whether c was
// overtaken before.
func (s *Sim) overtake(c *call) (victim bool) {
	o := &c.at.overtaking
	s.ripen(o)
	var pending, known int64
	for i, p := range o.priorities {
		if p >= c.priority {
			break
		}
		pending += int64(o.waiting[i])
		known += int64(o.ripe[i])
	}
	if s.measuring() {
		v := &s.result.Inversions
		v.Pending += uint64(pending)
		v.Known += uint64(known)
		if pending > 0 {
			v.Overtakers++
		}
	}
	if c.wanted == c.at {
		victim = o.overtaken(c)
	}
	o.entries++
	for n := len(o.peaks); n > 0 && o.peaks[n-1].priority <= c.priority; n-- {
		o.peaks = o.peaks[:n-1]
	}
	o.peaks = append(o.peaks, peak{o.entries, c.priority})
	return victim
}

// overtaken reports whether an entry since c was made was less important than it
// was then.
func (o *overtaking) overtaken(c *call) bool {
	if c.victim {
		return true
	}
	i, _ := slices.BinarySearchFunc(o.peaks, c.stamp+1, func(p peak, entry uint64) int {
		if p.entry < entry {
			return -1
		}
		return 1
	})
	return i < len(o.peaks) && o.peaks[i].priority > c.priority
}
