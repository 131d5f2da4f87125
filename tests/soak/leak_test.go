package soak

import (
	"fmt"
	"slices"
)

// sample is what a process had at a time. What cannot be known is -1.
type sample struct {
	rss        int64 // bytes
	goroutines int
	fds        int
}

// What a process may have more at the end than after warm-up, before it counts as
// leaking.
const (
	// goroutineSlack is for what a pool or a timer happens to keep: a leak grows with
	// every fault and leaves this behind within a run.
	goroutineSlack = 10
	// fdSlack is for a connection that is on its way, and for what the runtime opens.
	fdSlack = 4
	// memorySlack and memoryShare bound the growth of memory, whichever is more. The
	// garbage collector lets a heap of a few megabytes grow to twice its size.
	memorySlack = 12 << 20 // bytes
	memoryShare = 0.25
	// quarters of the time after warm-up that are compared for memory.
	quarters = 4
)

// history is the samples of one process.
type history struct {
	name string
	warm []sample // at the end of warm-up, when everybody was there
	hot  []sample // under faults
	calm []sample // after the last fault and a settling time
}

// row is what the table shows of a process, and what is wrong with it.
type row struct {
	name         string
	before, then sample
	floors       [quarters]int64 // of memory, by quarter
	faults       []string
}

// judge compares the level at the end with that after warm-up.
//
// Of goroutines and descriptors the least at the end counts against the most after
// warm-up: what was busy at a moment is no leak, what never comes down is.
//
// Of memory the least of each quarter counts: the garbage collector makes a saw,
// whose teeth stand on what is really kept. Memory that is kept for each fault or
// lock raises every quarter; a heap that finds its size, a cache or a buffer raises
// the first ones only.
func (h *history) judge() row {
	r := row{name: h.name}
	r.before = extreme(h.warm, func(a, b int64) int64 { return max(a, b) })
	r.then = extreme(h.calm, func(a, b int64) int64 { return min(a, b) })
	if len(h.warm) == 0 || len(h.calm) == 0 {
		r.faults = append(r.faults, "was not seen until the end")
		return r
	}
	if r.then.goroutines > r.before.goroutines+goroutineSlack {
		r.faults = append(r.faults, fmt.Sprintf("%d goroutines more than after warm-up", r.then.goroutines-r.before.goroutines))
	}
	if r.then.fds > r.before.fds+fdSlack {
		r.faults = append(r.faults, fmt.Sprintf("%d file descriptors more than after warm-up", r.then.fds-r.before.fds))
	}
	all := slices.Concat(h.hot, h.calm)
	for i := range quarters {
		part := all[len(all)*i/quarters : len(all)*(i+1)/quarters]
		r.floors[i] = extreme(part, func(a, b int64) int64 { return min(a, b) }).rss
	}
	rises := true
	for i := range quarters - 1 {
		rises = rises && r.floors[i+1] > r.floors[i]
	}
	grown := r.floors[quarters-1] - r.floors[0]
	if rises && grown > max(memorySlack, int64(memoryShare*float64(r.floors[0]))) {
		r.faults = append(r.faults, fmt.Sprintf("memory grows steadily, by %d MiB", grown>>20))
	}
	return r
}

// extreme picks the most or the least of each number.
func extreme(all []sample, pick func(a, b int64) int64) sample {
	if len(all) == 0 {
		return sample{-1, -1, -1}
	}
	e := all[0]
	for _, s := range all[1:] {
		e.rss = pick(e.rss, s.rss)
		e.goroutines = int(pick(int64(e.goroutines), int64(s.goroutines)))
		e.fds = int(pick(int64(e.fds), int64(s.fds)))
	}
	return e
}

// table shows the rows for people.
func table(rows []row) string {
	text := fmt.Sprintf("%-28s %16s %11s %9s   %s\n", "process", "MiB: warm, floors", "goroutines", "files", "verdict")
	for _, r := range rows {
		floors := ""
		for _, f := range r.floors {
			floors += fmt.Sprintf(" %d", f>>20)
		}
		verdict := "steady"
		if len(r.faults) > 0 {
			verdict = fmt.Sprintf("LEAKS: %q", r.faults)
		}
		text += fmt.Sprintf("%-28s %16s %11s %9s   %s\n", r.name, fmt.Sprintf("%d:%s", r.before.rss>>20, floors),
			change(r.before.goroutines, r.then.goroutines), change(r.before.fds, r.then.fds), verdict)
	}
	return text
}

func change(before, then int) string {
	if before < 0 {
		return "-"
	}
	return fmt.Sprintf("%d > %d", before, then)
}
