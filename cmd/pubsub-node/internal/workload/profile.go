package workload

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profile is what a scenario says of an asker.
type profile struct {
	*asker
	id         string
	priority   int64
	priorities []int64 // one is drawn for each request; nil: all have the same
	asksFor    []string
	cs         string // empty: it is not known
	load, span string // key and value: think or every
	loadOf     *sample
}

// profiles describes the askers, the important ones first.
func (w *Workload) profiles(recorded time.Duration) []*profile {
	var all []*profile
	for _, a := range w.askers {
		p := &profile{asker: a, asksFor: w.asked(a)}
		p.priority, p.priorities = usual(a.priorities)
		all = append(all, p)
	}
	slices.SortFunc(all, func(p, o *profile) int {
		return cmp.Or(cmp.Compare(p.priority, o.priority), cmp.Compare(p.name, o.name), cmp.Compare(p.via, o.via))
	})
	nameThem(all)
	for _, p := range all {
		switch {
		case p.overlaps*20 > p.seq && p.every.n > 0:
			p.load, p.loadOf = "every", &p.every
		case p.think.n > 0:
			p.load, p.loadOf = "think", &p.think
		default: // it asked once, or not twice without a gap: as often as in this recording
			p.load, p.span = "every", distribution(recorded.Seconds()/float64(p.seq), 1)
		}
	}
	for _, load := range []string{"think", "every"} {
		fill(all, func(p *profile) *sample {
			if p.load != load {
				return nil
			}
			return p.loadOf
		}, func(p *profile, sum *sample) {
			if p.span = sum.text(); sum.n < fewest { // the least that one can presume
				p.span = distribution(sum.mean, 1)
			}
			if load == "every" && p.span == "0s" { // time would not pass
				p.span = span(1e-6)
			}
		})
	}
	fill(all, func(p *profile) *sample { return &p.asker.cs }, func(p *profile, sum *sample) { p.cs = sum.text() })
	return all
}

// fewest is how many times between requests show how they vary at all.
const fewest = 3

// fill sets a figure of each profile that has samples of it, from all of those alike.
func fill(all []*profile, of func(*profile) *sample, set func(*profile, *sample)) {
	var some []*profile
	var samples []*sample
	for _, p := range all {
		if s := of(p); s != nil && s.n > 0 {
			some, samples = append(some, p), append(samples, s)
		}
	}
	for i, sum := range pool(samples) {
		set(some[i], sum)
	}
}

// nameThem gives askers their names, a client of several gateways one with that of the
// gateway.
func nameThem(all []*profile) {
	taken, times := map[string]bool{}, map[string]int{}
	for _, p := range all {
		times[p.name]++
	}
	for _, p := range all {
		id := p.name
		if times[id] > 1 && p.via != "" {
			id += " via " + p.via
		}
		p.id = id
		for n := 2; taken[p.id]; n++ {
			p.id = id + " " + strconv.Itoa(n)
		}
		taken[p.id] = true
	}
}

// usual is the most usual priority, and if they vary a list of at most ten in which each is
// as usual as among the requests.
func usual(times map[int64]int) (most int64, drawn []int64) {
	for p, n := range times {
		if n > times[most] || n == times[most] && p < most {
			most = p
		}
	}
	if drawn = shares(times); drawn[0] == drawn[len(drawn)-1] {
		return most, nil
	}
	return most, drawn
}

// shares is a list of at most ten, in order, in which each is as usual as in times, or each
// once if all are rare.
func shares[K cmp.Ordered](times map[K]int) (drawn []K) {
	all, sum := slices.Sorted(maps.Keys(times)), 0
	for _, n := range times {
		sum += n
	}
	const places = 10
	for _, k := range all {
		drawn = append(drawn, slices.Repeat([]K{k}, (times[k]*places+sum/2)/sum)...)
	}
	if len(drawn) == 0 {
		return all
	}
	return drawn
}

// asked are the resources that a asked for, in order: each as often as a did, unless chance
// explains the difference.
func (w *Workload) asked(a *asker) []string {
	times := map[string]int{}
	for i, n := range a.asks {
		times[w.names[i]] = n
	}
	if a.uneven() {
		return shares(times)
	}
	return slices.Sorted(maps.Keys(times))
}

// writable reports whether a scenario can list a resource of that name: it separates names
// by commas.
func writable(name string) bool {
	return name != "" && !strings.Contains(name, ",") && strings.TrimSpace(name) == name
}
