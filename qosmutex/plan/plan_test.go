package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// The same seed and number of runs give the same plan, however many processors there are.
func TestSameSeedSamePlan(t *testing.T) {
	text := func() string {
		p := solve(t, important, "padme:LFFF padme:FFFF padme:AFFF central raymond padme:FFFD", "no-starvation; wait.p99[0] < 1s", "wait.p99[0] messages", 100)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if p.Runs > 100 {
			t.Errorf("%d runs of 100", p.Runs)
		}
		return string(b)
	}
	first := text()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if second := text(); first != second {
		t.Errorf("%s\n%s", first, second)
	}
}

// A budget that ends early, and an interruption, leave what is known.
func TestWhatIsKnownWhenItEnds(t *testing.T) {
	if p := solve(t, busy, "padme:LFFF padme:FFFF central raymond", "", "messages", 6); len(p.Options) == 0 || p.Runs > 6 {
		t.Errorf("%+v", p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Problem{Contenders: contendersOf(t, "padme:LFFF padme:FFFF central"), Setup: busy.setup, Seed: 1, Runs: 400}
	p.Progress = func(g Progress) {
		if g.Runs == 5 {
			cancel()
		}
	}
	got, err := Solve(ctx, p)
	if err != nil || got.Complete || len(got.Options) == 0 {
		t.Errorf("%v, %+v", err, got)
	}
	if got, err := Solve(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %+v", err, got)
	}
}

// A shorter time-to-live is recommended where a root must be replaced sooner, and it is.
func TestTTLFollowsTheRecovery(t *testing.T) {
	w := with(calm, func(w *world) { w.elect = true })
	p := solve(t, w, "padme:LFFF central", "recovery.root < 2s", "messages", 120)
	o := &p.Options[0]
	if ttl := o.Contender.TTL; ttl <= 0 || ttl >= 3*protocol.Second || !o.Limits[0].Met || o.Figures["recovery.root"].Mean < 0.5 {
		t.Errorf("TTL %s, %+v", o.TTL, o.Limits)
	}
	if len(p.Refused) != 1 || p.Refused[0].Names[0] != "central" {
		t.Errorf("refused %+v", p.Refused)
	}
}

// What would be chosen without a requirement is told, and that importance costs fairness.
func TestFlips(t *testing.T) {
	p := solve(t, calm, "padme:LFFF central", "survive=holder", "messages", 120)
	if len(p.Flips) != 1 || p.Flips[0].If != "without survive=holder" || p.Flips[0].Name != "central" || p.Flips[0].Value.Mean >= p.Flips[0].Was.Mean {
		t.Errorf("%+v", p.Flips)
	}
	p = solve(t, busy, "padme:FRUU padme:FFFF", "", "fairness entries", 120)
	if len(p.Flips) == 0 || p.Flips[0].If != "if entries came first" || p.Flips[0].Name != "padme:FRUU, fan-out 2" {
		t.Errorf("%+v", p.Flips)
	}
}

// Models that only differ where they cannot matter are one choice.
func TestTwinsAreMerged(t *testing.T) {
	p := solve(t, with(calm, func(w *world) { w.alone = true }), "padme:LFFF padme:LRFF padme:FFFF", "", "messages", 60)
	if len(p.Options) != 1 || len(p.Options[0].Same) != 2 || p.Decided != nil {
		t.Errorf("%+v", p)
	}
}

// All choices differ, and today's is the first.
func TestContenders(t *testing.T) {
	today := Contender{Algorithm: padme.Algorithm, Models: protocol.Models{Priority: protocol.Fair}, Fanout: 3}
	all := Contenders(today, papers.Algorithms(), 20)
	names := map[string]bool{}
	for _, c := range all {
		names[c.String()] = true
	}
	if all[0].String() != "padme:FFFF, fan-out 3" || all[1].String() != "padme:LFFF, fan-out 8" || len(names) != len(all) {
		t.Errorf("%v", all)
	}
	for name, want := range map[string]bool{
		"padme:LFFD, fan-out 64": true, "padme:DFFF, fan-out 2": true, "padme:DRUU, fan-out 2": false, "padme:LRFD, fan-out 8": false,
		"raymond, fan-out 4": true, "central": true, "central, fan-out 2": false,
	} {
		if names[name] != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if n := len(combinations()); n != 40 { // 3 × (12 + Direct), and Deadline
		t.Errorf("%d combinations", n)
	}
	if got := fmt.Sprint(fanouts(3), fanouts(7), fanouts(20)); got != "[8] [8 4 2] [8 4 2 64]" {
		t.Errorf("fan-outs %s", got)
	}
}

func TestWrongTextsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"survive=broker":       "survive= takes root, holder and member",
		"fast":                 "want a limit such as",
		"wait.p98 < 3s":        "no figure is named \"wait.p98\"",
		"wait.p99[x] < 3s":     "such as wait.p99[0]",
		"messages[0] < 3":      "only waiting times are known by priority",
		"wait.p99 < soon":      "\"soon\" is not a time",
		"messages <= 3s":       "\"3s\" is not a number",
		"wait.p99[0 < 3s":      "such as wait.p99[0]",
		"recovery.member < 3s": "no figure is named",
	} {
		if _, err := ParseRequirements(text); err == nil || !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseGoal("recovery.root"); err == nil || !strings.Contains(err.Error(), "require it") {
		t.Error(err)
	}
	p := &Problem{Contenders: contendersOf(t, "padme:LFFF"), Setup: important.setup, Requirements: requirementsOf(t, "wait.p99[7] < 1s")}
	if _, err := Solve(context.Background(), p); err == nil || !strings.Contains(err.Error(), "nobody asks with priority 7: there are [0 1]") {
		t.Error(err)
	}
	if _, err := Solve(context.Background(), &Problem{}); !errors.Is(err, ErrPlan) {
		t.Error(err)
	}
}

// Limits are strict where they say so.
func TestLimits(t *testing.T) {
	for text, want := range map[string]string{"never < 3": "2", "never <= 3": "2 3", "never > 3": "4", "never >= 3": "3 4"} {
		r := requirementsOf(t, text)[0]
		var met []string
		for v := 2.0; v <= 4; v++ {
			if r.excess(v) == 0 {
				met = append(met, fmt.Sprint(v))
			}
		}
		if got := strings.Join(met, " "); got != want {
			t.Errorf("%s is met by %s, want %s", text, got, want)
		}
	}
	if r := requirementsOf(t, " wait.p99  <=  1.5 ")[0]; r.String() != "wait.p99 <= 1.5" || r.limit != 1.5 {
		t.Errorf("%+v", r)
	}
}

func samplesOf(values ...float64) (all []Figures) {
	for _, v := range values {
		all = append(all, Figures{"messages": v})
	}
	return all
}

// Two that differ by 1 with each seed are told apart though each varies by 100; two that
// differ by noise, or by less than the zone, are not.
func TestDifferencesArePaired(t *testing.T) {
	g := Goal{Figure: "messages"}
	far := differ(samplesOf(101.1, 201, 300.9), samplesOf(100, 200, 300), g, 0.001)
	if far.mean < 0.99 || far.tie() || far.near() || far.wrong() > 0.01 {
		t.Errorf("%+v, wrong with %v", far, far.wrong())
	}
	noise := differ(samplesOf(105, 195, 303), samplesOf(100, 200, 300), g, 0)
	if !noise.tie() || noise.near() || math.Abs(noise.wrong()-0.4) > 0.1 {
		t.Errorf("%+v, wrong with %v", noise, noise.wrong())
	}
	if small := differ(samplesOf(101, 201), samplesOf(100, 200), g, 0.02); !small.tie() || !small.near() {
		t.Errorf("%+v", small)
	}
	if d := differ(samplesOf(9, 8), samplesOf(2, 1), Goal{"messages", true}, 0); d.mean != -7 {
		t.Errorf("more is better: %+v", d)
	}
	if d := differ(nil, samplesOf(1, 2), g, 0); !math.IsInf(d.mean, 1) || d.interval().Mean != 0 {
		t.Errorf("nothing measured: %+v", d)
	}
}

// The budget goes to the one that is hard to tell from the best.
func TestBudgetGoesToTheClosest(t *testing.T) {
	s := &search{Problem: &Problem{Zone: 0.001}, goals: []Goal{{Figure: "messages"}}}
	best := &entry{place: 0, samples: samplesOf(10, 11, 12, 10)}
	near := &entry{place: 1, samples: samplesOf(10.5, 10.9, 12.4, 10.1)}
	far := &entry{place: 2, samples: samplesOf(21, 20, 22, 22)}
	all := []*entry{best, near, far}
	if got := s.starved(best, all); got != near {
		t.Errorf("%+v", got)
	}
	if right := s.rightChoice(best, all); right < 0.5 || right > 0.95 {
		t.Errorf("right with %v", right)
	}
	if sorted := s.rank([]*entry{far, near, best}); !slices.Equal(sorted, all) {
		t.Errorf("%+v", sorted)
	}
}

// Load is how often participants ask, also by a trace; all contenders meet the same.
func TestLoadScales(t *testing.T) {
	own := sim.Workload{Resources: []string{"crane"}, Every: sim.Constant(10 * ms)}
	sc := &sim.Scenario{
		Workload:     sim.Workload{Think: sim.Exponential(12 * ms)},
		Participants: []sim.Participant{{ID: "A", Workload: &own}},
		Arrivals:     []sim.Arrival{{At: 24 * ms}},
	}
	adjust(sc, 2)
	if sc.Workload.Think != sim.Exponential(6*ms) || sc.Participants[0].Workload.Every != sim.Constant(5*ms) || sc.Arrivals[0].At != 12*ms {
		t.Errorf("%+v", sc)
	}
	if own.Every != sim.Constant(10*ms) {
		t.Error("the caller's workload has changed")
	}
}
