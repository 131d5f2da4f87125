package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// sum is what all seeds did together.
type sum struct {
	seeds   int
	rounds  int
	entries int
	share   float64
	slowest protocol.Duration
	total   outcome
	cpu     time.Duration

	worlds map[string]int
	traits map[string]int
	gaps   map[string]gaps // by world
}

func newSum() *sum {
	return &sum{
		total:  outcome{faults: map[string]int{}},
		worlds: map[string]int{}, traits: map[string]int{}, gaps: map[string]gaps{},
	}
}

func (s *sum) add(o *outcome) {
	s.seeds++
	s.rounds += o.rounds
	s.entries += o.entries
	s.share, s.slowest = max(s.share, o.share), max(s.slowest, o.slowest)
	s.total.time += o.time
	s.total.events += o.events
	for name, n := range o.faults {
		s.total.faults[name] += n
	}
	s.total.add(&o.counters)
	s.worlds[o.world]++
	for _, trait := range o.traits {
		s.traits[trait]++
	}
	g := s.gaps[o.world]
	g.add(o.gap)
	s.gaps[o.world] = g
	s.total.visits += o.visits
	s.total.slowGoodbyes += o.slowGoodbyes
	s.total.kills += o.kills
	s.total.deaths += o.deaths
	s.total.denied += o.denied
	s.total.overlaps += o.overlaps
	s.total.goneOn += o.goneOn
	s.total.met += o.met
	s.total.missed += o.missed
}

func (s *sum) String() string {
	var b strings.Builder
	n := 0
	for i := range faults {
		n += s.total.faults[faults[i].name]
	}
	fmt.Fprintf(&b, "%d seeds, %.0f s simulated at %.0f s per second of a core, %d events at %.0f, %d faults in %d rounds, %d entries\n",
		s.seeds, inSeconds(s.total.time), inSeconds(s.total.time)/s.cpu.Seconds(), s.total.events, float64(s.total.events)/s.cpu.Seconds(),
		n, s.rounds, s.entries)
	fmt.Fprintf(&b, "everybody was served within %.1f s of the last fault, %.0f %% of the bound\n", inSeconds(s.slowest), 100*s.share)
	for i := range worlds {
		name := worlds[i].name
		fmt.Fprintf(&b, "world %s: %d seeds", name, s.worlds[name])
		if g := s.gaps[name]; g.share > 0 {
			fmt.Fprintf(&b, ", the longest gap is %.3f s, %.2f sessions, %.0f %% of the bound, in seed %d", inSeconds(g.For), g.ttls, 100*g.share, g.seed)
		}
		b.WriteString("\n")
	}
	for i := range faults {
		fmt.Fprintf(&b, "%s %d, ", faults[i].name, s.total.faults[faults[i].name])
	}
	b.WriteString("\n")
	for _, c := range s.counters() {
		fmt.Fprintf(&b, "%s %d, ", c.name, c.n)
	}
	return b.String()
}

type counter struct {
	name  string
	n     uint64
	where string // a world that it is for; "": faults
}

func (s *sum) counters() []counter {
	c := &s.total.counters
	all := []counter{
		{name: "sessions expired", n: c.Expiries},
		{name: "holds lost", n: c.Losses},
		{name: "sessions expired inside", n: c.ExpiriesIn},
		{name: "messages repeated", n: c.Resent},
		{name: "recoveries", n: c.Syncs},
		{name: "regenerations", n: c.Regenerated},
		{name: "grants returned", n: c.Returned},
		{name: "entries on retained tokens", n: c.Retained},
		{name: "recalls", n: c.Recalls},
		{name: "schedules sent", n: c.Sent[protocol.KindSchedule]},
		{name: "off-path Releases", n: c.OffPath},
		{name: "re-attachments", n: c.Moves},
		{name: "terms", n: c.Terms},
		{name: "holds adopted", n: c.Adopted},
		{name: "holds that went on in another process", n: s.total.goneOn},
		{"visits", uint64(s.total.visits), "ordinary"},
		{"visitors not let go in time", uint64(s.total.slowGoodbyes), "crowd"},
		{"kills", uint64(s.total.kills), "kills"},
		{"visitors killed on their way", uint64(s.total.deaths), "crowd"},
		{"requests denied", s.total.denied, "settings"},
		{"deadlines met", uint64(s.total.met), "settings"},
		{"entries beside another, with roots that do not hear each other", s.total.overlaps, "registers"},
		{"deadlines missed", uint64(s.total.missed), "settings"},
	}
	for trait := range new(options).traits() {
		all = append(all, counter{"seeds with " + trait, uint64(s.traits[trait]), traitOf[trait]})
	}
	return all
}

// traitOf names a world for what the first one does not draw.
var traitOf = map[string]string{
	"visitors": "ordinary", "clients on different resources": "ordinary", "members configured differently": "settings",
	"undeclared resources": "settings", "registers in memory": "settings", "short queues": "settings", "trusted wills": "settings", "deadlines": "settings",
}

// tester is what check needs of a test.
type tester interface {
	Errorf(format string, args ...any)
}

// check demands that the faults reach what they should test. only is the world of all
// seeds; nil: each drew its own.
func (s *sum) check(t tester, only *world) {
	in := func(name string) bool {
		return only == nil && worldNamed(name).share > 0 || only != nil && only.name == name
	}
	for i := range faults {
		f := &faults[i]
		drawn := f.world == "" && (only == nil || only.play == nil) || f.world != "" && in(f.world)
		if drawn && s.total.faults[f.name] == 0 && !(f.name == "false suspicion" && only != nil) {
			t.Errorf("%d seeds and not one %s", s.seeds, f.name)
		}
	}
	for _, c := range s.counters() {
		if c.n == 0 && in(cmp.Or(c.where, "faults")) {
			t.Errorf("%d seeds and no %s", s.seeds, c.name)
		}
	}
	for i := range worlds {
		if s.worlds[worlds[i].name] == 0 && only == nil && worlds[i].share > 0 {
			t.Errorf("%d seeds and none in the world %s", s.seeds, worlds[i].name)
		}
	}
}
