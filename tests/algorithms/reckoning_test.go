package algorithms_test

import (
	"math"
	"slices"
	"strconv"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// reckoning measures a run from its diary, one definition after the other, as they
// are documented at sim.Result, and as slowly as they are written there.
type reckoning struct {
	*diary
	scenario *sim.Scenario
	now      protocol.Time     // when the run was stopped
	known    protocol.Duration // see sim.Inversions
	static   bool
}

// others is what a sim.Result tells beyond its Report.
type others struct {
	ByNode     []sim.NodeEntries
	Victims    map[int64]int
	Never      []string
	Inside     protocol.Duration
	Met        int
	Stale      uint64
	Overstayed int
	Lost       uint64
	Rejected   uint64
	LostHolds  uint64
	Denied     uint64
	Sent       map[protocol.Kind]uint64
}

func (k *reckoning) end() protocol.Time { return k.scenario.Start + k.scenario.Duration }

// during reports whether line i is within the measured time.
func (k *reckoning) during(i int) bool {
	return i != never && k.lines[i].at >= k.scenario.Start && k.lines[i].at < k.end()
}

// at is when line i was written; of what never happened, now.
func (k *reckoning) at(i int) protocol.Time {
	if i == never {
		return k.now
	}
	return k.lines[i].at
}

// overlap is how much of the time between two lines is measured.
func (k *reckoning) overlap(from, to int) protocol.Duration {
	return max(0, min(k.at(to), k.end())-max(k.at(from), k.scenario.Start))
}

// entries are the requests that entered during the measured time, in that order.
func (k *reckoning) entries() (all []*story) {
	for _, st := range k.stories {
		if k.during(st.entered) {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b *story) int { return a.entered - b.entered })
	return all
}

func (k *reckoning) waited(st *story) protocol.Duration { return k.at(st.entered) - k.at(st.asked) }

// overtaken are those whom an entry overtakes.
func (k *reckoning) overtaken(by *story) (all []*story) {
	for _, st := range k.stories {
		if st.resource == by.at && st.waits(by.entered) && k.priority(st, by.entered) < k.priority(by, by.entered) {
			all = append(all, st)
		}
	}
	return all
}

// inversions fills in the report's inversions and returns the victims.
func (k *reckoning) inversions(v *sim.InversionsReport) map[*story]bool {
	victims := map[*story]bool{}
	for _, by := range k.stories {
		if by.entered == never {
			continue
		}
		whom := k.overtaken(by)
		for _, st := range whom {
			victims[st] = true
		}
		if !k.during(by.entered) {
			continue
		}
		if len(whom) > 0 {
			v.Overtakers++
		}
		for _, st := range whom {
			v.Pending++
			if k.at(by.entered)-k.at(st.asked) > k.known {
				v.Known++
			}
		}
	}
	for _, st := range k.entries() {
		if victims[st] {
			v.Victims++
		}
	}
	return victims
}

// delays are the synchronization delays: from a leave that left the resource empty
// to the next entry, if somebody waited all that time.
func (k *reckoning) delays() (all []protocol.Duration) {
	for _, st := range k.entries() {
		left := -1
		for i := st.entered - 1; i >= 0 && left < 0; i-- {
			l := &k.lines[i]
			if l.event == sim.Entered && l.resource == st.at {
				break
			}
			if l.event == sim.Left && l.resource == st.at {
				left = i
			}
		}
		if left >= 0 && k.empty(st.at, left) && k.wantedBetween(st.at, left, st.entered) {
			all = append(all, k.at(st.entered)-k.at(left))
		}
	}
	return all
}

func (k *reckoning) empty(resource string, after int) bool {
	return !slices.ContainsFunc(k.stories, func(st *story) bool { return st.at == resource && st.inside(after) })
}

// wantedBetween reports whether after every line from one place until before
// another somebody waits for the resource.
func (k *reckoning) wantedBetween(resource string, from, to int) bool {
	for i := from; i < to; i++ {
		if !slices.ContainsFunc(k.stories, func(st *story) bool {
			return (st.resource == resource || st.resource == protocol.Any) && st.asked <= i && min(st.entered, st.ended) > i
		}) {
			return false
		}
	}
	return true
}

func (k *reckoning) deadlines() (d sim.DeadlinesReport, met int) {
	for _, st := range k.stories {
		if st.within == 0 {
			continue
		}
		over := min(st.entered, st.ended)
		late := k.at(over) > k.at(st.asked)+st.within
		switch {
		case over != never && !k.during(over):
		case over == never:
			if late {
				d.Missed++
			}
		case over == st.entered && !late:
			met++
		case k.denied(over, protocol.ReasonUnattainable):
			d.Refused++
		case late || k.denied(over, protocol.ReasonMissed):
			d.Missed++
		}
	}
	d.Admitted = met + d.Missed
	return d, met
}

func (k *reckoning) denied(i int, why protocol.Reason) bool {
	return k.lines[i].event == sim.Denied && k.lines[i].note == why.String()
}

// overlaps counts entries while another hold was valid. That of a participant that
// has departed is not.
func (k *reckoning) overlaps() (n uint64) {
	if !k.scenario.AllowOverlap {
		return 0
	}
	for _, st := range k.stories {
		if st.entered != never && slices.ContainsFunc(k.stories, func(o *story) bool {
			return o.at == st.at && o.inside(st.entered) && !(k.static && k.count(sim.Departed, o.node, st.entered) > k.count(sim.Restarted, o.node, st.entered))
		}) {
			n++
		}
	}
	return n
}

// count is how many lines before place i tell of event at node ("": at anybody).
func (k *reckoning) count(event sim.Event, node string, i int) (n uint64) {
	for j := range min(i, len(k.lines)) {
		if l := &k.lines[j]; l.event == event && (node == "" || l.node == node) {
			n++
		}
	}
	return n
}

func (k *reckoning) staleFences() (n uint64) {
	if !k.scenario.AllowOverlap {
		return 0
	}
	for i, l := range k.lines {
		if l.event == sim.Entered && slices.ContainsFunc(k.lines[:i], func(o line) bool {
			return o.event == sim.Entered && o.resource == l.resource && o.fence >= l.fence
		}) {
			n++
		}
	}
	return n
}

// times are mean, median and 99th percentile: the value at the place that so many
// of a hundred do not exceed, counted out.
func timesOf(all []protocol.Duration) (t sim.Times) {
	if len(all) == 0 {
		return t
	}
	slices.Sort(all)
	var sum protocol.Duration
	for _, d := range all {
		sum += d
	}
	quantile := func(percent int) float64 {
		for i := range all {
			if 100*(i+1) >= percent*len(all) {
				return inSeconds(all[i])
			}
		}
		return math.NaN()
	}
	return sim.Times{Mean: inSeconds(sum / protocol.Duration(len(all))), P50: quantile(50), P99: quantile(99), Max: quantile(100)}
}

func inSeconds(d protocol.Duration) float64 { return float64(d) / float64(protocol.Second) }

// measure is everything at once.
func (k *reckoning) measure() (sim.Report, others) {
	r := sim.Report{
		Entries:  sim.EntriesReport{ByNode: make([]int, len(k.scenario.Participants)), ByPriority: map[string]int{}},
		Messages: sim.MessagesReport{ByKind: map[string]uint64{}},
		Wait:     sim.WaitReport{ByPriority: map[string]sim.WaitTimes{}},
	}
	o := others{Victims: map[int64]int{}, Sent: map[protocol.Kind]uint64{}}
	r.Measured = inSeconds(max(0, min(k.now, k.end())-k.scenario.Start))
	k.measureNodes(&r, &o)
	victims := k.inversions(&r.Inversions)
	waits, byPriority := []protocol.Duration(nil), map[int64][]protocol.Duration{}
	for _, st := range k.entries() {
		p := k.priority(st, st.entered)
		waits = append(waits, k.waited(st))
		byPriority[p] = append(byPriority[p], k.waited(st))
		r.Entries.ByPriority[strconv.FormatInt(p, 10)]++
		if victims[st] {
			o.Victims[p]++
		}
	}
	unserved := map[int64]int{}
	for _, st := range k.stories {
		if st.waits(never - 1) {
			p := k.priority(st, never-1)
			waits = append(waits, k.now-k.at(st.asked))
			byPriority[p] = append(byPriority[p], k.now-k.at(st.asked))
			unserved[p]++
			r.Wait.Unserved++
		}
	}
	for p, all := range byPriority {
		name := strconv.FormatInt(p, 10)
		r.Wait.ByPriority[name] = sim.WaitTimes{Times: timesOf(all), Unserved: unserved[p]}
		r.Entries.ByPriority[name] += 0
	}
	r.Wait.Times, r.SyncDelay = timesOf(waits), timesOf(k.delays())
	r.Deadlines, o.Met = k.deadlines()
	r.Overlaps, o.Stale = k.overlaps(), k.staleFences()
	k.measureMessages(&r, &o)
	k.measureTimes(&r, &o)
	return r, o
}

func (k *reckoning) measureNodes(r *sim.Report, o *others) {
	var asking, sum, squares float64
	for i, p := range k.scenario.Participants {
		n := sim.NodeEntries{Node: p.ID, Priority: p.Priority}
		for _, st := range k.stories {
			if st.node != p.ID {
				continue
			}
			if k.during(st.asked) {
				n.Asked++
			}
			if k.during(st.entered) {
				n.Entries++
				n.Waited += k.waited(st)
				n.Longest = max(n.Longest, k.waited(st))
			}
			if st.waits(never - 1) {
				n.Unserved.Requests++
				n.Unserved.Waited += k.now - k.at(st.asked)
				n.Unserved.Longest = max(n.Unserved.Longest, k.now-k.at(st.asked))
			}
		}
		o.ByNode = append(o.ByNode, n)
		r.Entries.ByNode[i] = n.Entries
		r.Entries.Total += n.Entries
		if n.Asked > 0 && n.Entries == 0 {
			o.Never = append(o.Never, p.ID)
		}
		asks := len(k.scenario.Workload.Resources) > 0
		if p.Workload != nil {
			asks = len(p.Workload.Resources) > 0
		}
		if n.Asked > 0 || asks && k.count(sim.Departed, p.ID, never) == 0 {
			x := float64(n.Entries)
			asking, sum, squares = asking+1, sum+x, squares+x*x
		}
	}
	if squares > 0 {
		r.Fairness = sum * sum / (asking * squares)
	}
	r.Starvation.Nodes = len(o.Never)
}

func (k *reckoning) measureMessages(r *sim.Report, o *others) {
	for i, l := range k.lines {
		switch {
		case l.event != sim.Sent || !k.during(i):
			continue
		case l.kind.Counted():
			r.Messages.Total++
			r.Messages.ByKind[l.kind.String()]++
		default:
			r.Messages.Upkeep++
		}
		o.Sent[l.kind]++
	}
	if r.Entries.Total > 0 {
		r.Messages.PerEntry = float64(r.Messages.Total) / float64(r.Entries.Total)
	}
	o.Lost = k.count(sim.Lost, "", never)
	o.Rejected = k.count(sim.Rejected, "", never)
	o.LostHolds = k.count(sim.HoldLost, "", never)
	o.Denied = k.count(sim.Denied, "", never)
}

func (k *reckoning) measureTimes(r *sim.Report, o *others) {
	var waiting, longest protocol.Duration
	for _, st := range k.stories {
		waiting += k.overlap(st.asked, min(st.entered, st.ended))
		if st.entered != never {
			o.Inside += k.overlap(st.entered, st.ended)
		}
		if st.entered != never && k.during(st.ended) && k.at(st.ended)-k.at(st.entered) > st.hold {
			o.Overstayed++
		}
		if st.waits(never - 1) {
			r.Starvation.Waiting++
			longest = max(longest, k.now-k.at(st.asked))
		}
	}
	r.Starvation.Longest = inSeconds(longest)
	if still := min(longest, k.still()); still > 0 && still >= max(0, min(k.now, k.end())-k.scenario.Start)/10 {
		r.Stopped, r.Fairness = inSeconds(still), 0
	}
	if measured := max(0, min(k.now, k.end())-k.scenario.Start); measured > 0 {
		r.Waiting = float64(waiting) / float64(measured)
		r.Rate = float64(o.Inside) / float64(measured)
	}
}

// still is for how long nobody has entered or left; 0 if somebody is inside who may be.
func (k *reckoning) still() protocol.Duration {
	last := k.scenario.Start
	for _, st := range k.stories {
		switch {
		case st.entered == never:
		case st.ended != never:
			last = max(last, k.at(st.ended))
		case k.now-k.at(st.entered) <= st.hold:
			return 0
		default:
			last = max(last, k.at(st.entered))
		}
	}
	return k.now - last
}
