package plan

import (
	"context"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

var (
	busy      = world{n: 7, think: sim.Exponential(20 * ms), hold: sim.Constant(10 * ms)}
	calm      = world{n: 7, think: sim.Exponential(3 * protocol.Second), hold: sim.Constant(10 * ms), duration: 40 * protocol.Second}
	classes   = []int64{0, 0, 1}
	important = with(busy, func(w *world) { w.priorities = classes })
)

func with(w world, change func(*world)) world {
	change(&w)
	return w
}

// planted are workloads of which the best choice is known by argument.
var planted = []struct {
	name, why string
	world     world
	from      string // contenders, the first is today's
	require   string
	goals     string
	want      string // "": all are refused
	tie       bool
	misses    bool // nothing meets the limits: the nearest is taken
}{
	{
		name: "importance", why: "Level alone serves the important ones first, whatever waits",
		world: important, from: "padme:FFFF padme:LFFF", goals: "wait.p99[0]", want: "padme:LFFF",
	},
	{
		name: "aging", why: "Level starves the others, and under Fair the important ones wait for their turn",
		world: important, from: "padme:LFFF padme:FFFF padme:AFFF", require: "no-starvation", goals: "wait.p99[0]", want: "padme:AFFF",
	},
	{
		name: "turns", why: "under Fair the longest wait is a round, under Aging hundreds of entries",
		world: important, from: "padme:AFFF padme:LFFF padme:FFFF", goals: "wait.max[1]", want: "padme:FFFF",
	},
	{
		name: "limit", why: "the bound for the others excludes Level and Aging, though these serve the important ones faster",
		world: with(busy, func(w *world) { w.priorities = []int64{0, 0, 0, 0, 0, 1} }), from: "padme:LFFF padme:AFFF padme:FFFF", require: "wait.max[1] < 1s", goals: "wait.p99[0]", want: "padme:FFFF",
	},
	{
		name: "server", why: "three messages, where PADME takes three for each link of its tree",
		world: calm, from: "padme:LFFF padme:FRUU central", require: "messages <= 3", goals: "wait.p99", want: "central",
	},
	{
		name: "crash", why: "the same where a holder may die",
		world: calm, from: "padme:LFFF central naimi-trehel", require: "survive=holder", goals: "messages", want: "padme:LFFF",
	},
	{
		name: "crash and budget", why: "what survives needs more messages than are allowed: it is the nearest",
		world: calm, from: "padme:LFFF central", require: "survive=holder; messages <= 3", goals: "wait.p99", want: "padme:LFFF", misses: true,
	},
	{
		name: "nothing survives", why: "no classical algorithm survives the death of a holder",
		world: calm, from: "central raymond maekawa", require: "survive=holder", goals: "messages",
	},
	{
		name: "root of a given tree", why: "nobody else can be the root",
		world: calm, from: "padme:LFFF padme:FFFF", require: "survive=root", goals: "messages",
	},
	{
		name: "root", why: "all can be the root",
		world: with(calm, func(w *world) { w.elect = true }), from: "central padme:LFFF", require: "survive=root", goals: "messages", want: "padme:LFFF",
	},
	{
		name: "flat", why: "in a star everybody is one link from the root",
		world: with(calm, func(w *world) { w.n = 15 }), from: "padme:LFFF/2 padme:LFFF/4 padme:LFFF/14", goals: "messages", want: "padme:LFFF, fan-out 14",
	},
	{
		name: "flat waits", why: "and a request alone waits for two messages",
		world: with(calm, func(w *world) { w.n = 15 }), from: "padme:LFFF/2 padme:LFFF/4 padme:LFFF/14", goals: "wait.p50", want: "padme:LFFF, fan-out 14",
	},
	{
		name: "deadlines", why: "Deadline alone refuses what it cannot promise",
		world: with(busy, func(w *world) { w.deadlines = []protocol.Duration{100 * ms, 400 * ms} }), from: "padme:LFFF padme:FFFF padme:DFFF",
		require: "deadlines", goals: "entries", want: "padme:DFFF",
	},
	{
		name: "missed", why: "the same by measure",
		world: with(busy, func(w *world) { w.deadlines = []protocol.Duration{100 * ms, 400 * ms} }), from: "padme:LFFF padme:FFFF padme:DFFF",
		require: "missed <= 0", goals: "entries", want: "padme:DFFF",
	},
	{
		name: "alone", why: "who asks alone enters without a message under Retain",
		world: with(calm, func(w *world) { w.alone = true; w.think = sim.Exponential(100 * ms) }), from: "padme:LFFF padme:LFFR padme:FRUU padme:LFFD", goals: "messages", want: "padme:LFFR",
	},
	{
		name: "crowd", why: "Direct takes one message from a leave to the next entry",
		world: busy, from: "padme:FFFF padme:FFFR padme:FFFD", goals: "entries", want: "padme:FFFD",
	},
	{
		name: "replace", why: "Replace sends fewer Requests, and the same enter",
		world: busy, from: "padme:FFUU padme:FRUU", goals: "messages", want: "padme:FRUU",
	},
	{
		name: "fairness", why: "Use favors those near the root",
		world: busy, from: "padme:FRUU padme:FFFF", goals: "fairness", want: "padme:FFFF",
	},
	{
		name: "use", why: "with Use the token stops on its way, so less of it is idle",
		world: busy, from: "padme:FFFF padme:FFUU", goals: "entries", want: "padme:FFUU",
	},
	{
		name: "delay", why: "a token that is broadcast for takes one message to the next, a server's permission two",
		world: busy, from: "central suzuki-kasami", goals: "delay", want: "suzuki-kasami",
	},
	{
		name: "few messages", why: "a path of fathers is short, all others are many",
		world: calm, from: "lamport ricart-agrawala naimi-trehel", goals: "messages", want: "naimi-trehel",
	},
	{
		name: "no upkeep", why: "only static algorithms have no heartbeats",
		world: calm, from: "padme:LFFF raymond", require: "upkeep <= 0", goals: "wait.p50", want: "raymond, fan-out 2",
	},
	{
		name: "order of arrival", why: "a server that serves by importance starves the others",
		world: important, from: "central central-fifo", require: "no-starvation", goals: "messages", want: "central-fifo",
	},
	{
		name: "equal", why: "where hardly anybody waits the order does not matter for the half that waits least",
		world: with(calm, func(w *world) { w.priorities = classes }), from: "padme:FFFF padme:LFFF", goals: "wait.p50", want: "padme:FFFF", tie: true,
	},
	{
		name: "noise", why: "and of the one request in a hundred that waits longest it is within what does not matter",
		world: with(calm, func(w *world) { w.priorities = classes }), from: "padme:LFFF padme:FFFF", goals: "wait.p99", want: "padme:LFFF", tie: true,
	},
	{
		name: "then", why: "where the wait is equal, messages decide",
		world: calm, from: "lamport ricart-agrawala", goals: "wait.p50 messages", want: "ricart-agrawala",
	},
	{
		name: "equal servers", why: "without priorities the order is that of arrival",
		world: busy, from: "central-fifo central", goals: "entries messages", want: "central-fifo",
	},
}

func solve(t *testing.T, w world, from, require, goals string, runs int) *Plan {
	t.Helper()
	p, err := Solve(context.Background(), &Problem{
		Contenders: contendersOf(t, from), Requirements: requirementsOf(t, require), Goals: goalsOf(t, goals),
		Setup: w.setup, Seed: 1, Runs: runs, Zone: 0.02,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlantedTruths(t *testing.T) {
	for _, tc := range planted {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := solve(t, tc.world, tc.from, tc.require, tc.goals, 120)
			if tc.want == "" {
				if len(p.Options) > 0 || len(p.Refused) == 0 {
					t.Fatalf("%s: chose %+v", tc.why, p.Options)
				}
				return
			}
			if len(p.Options) == 0 {
				t.Fatalf("%s: nothing is left: %+v", tc.why, p.Refused)
			}
			c := p.Options[0]
			if name, _, _ := strings.Cut(c.Name, ", fan-out 2"); name != tc.want && c.Name != tc.want {
				t.Errorf("chose %s, want %s: %s; decided by %+v", c.Name, tc.want, tc.why, p.Decided)
			}
			if p.Decided != nil && p.Decided.Tie != tc.tie {
				t.Errorf("decided by %+v, want a tie: %v; %s", p.Decided, tc.tie, tc.why)
			}
			if missed := slices.ContainsFunc(c.Limits, func(v Verdict) bool { return !v.Met }); missed != tc.misses {
				t.Errorf("limits %+v", c.Limits)
			}
			if !tc.tie && p.Right < 0.95 {
				t.Errorf("right with %.3f only", p.Right)
			}
		})
	}
}
