package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/chaos"
	"padme/tests/bubble"
)

// log is what was done to all actors of a test, and whatever of it makes no sense.
type log struct {
	mu    sync.Mutex
	lines []string
	wrong []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) has(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.lines, line)
}

// actor is dead or alive, asleep or awake, and complains when it is asked for what
// cannot be.
type actor struct {
	*log
	name  string
	state string // "awake", "asleep", "dead"
	fails error
}

func (a *actor) Name() string { return a.name }

func (a *actor) turn(verb, from, to string) error {
	a.mu.Lock()
	if a.state != from {
		a.wrong = append(a.wrong, fmt.Sprintf("%s %s while it is %s", verb, a.name, a.state))
	}
	a.state = to
	a.mu.Unlock()
	a.add("%s %s", verb, a.name)
	return a.fails
}

func (a *actor) Kill() error     { return a.turn("kill", "awake", "dead") }
func (a *actor) Start() error    { return a.turn("start", "dead", "awake") }
func (a *actor) Stop() error     { return a.turn("stop", "awake", "asleep") }
func (a *actor) Continue() error { return a.turn("continue", "asleep", "awake") }

// company is a cast of four robots and three voters, with base as the root.
func company() (*log, chaos.Cast, []*actor) {
	l := &log{}
	named := func(name string) *actor { return &actor{log: l, name: name, state: "awake"} }
	broker, base := named("broker"), named("base")
	all := []*actor{broker, base}
	cast := chaos.Cast{
		Broker: broker, Base: base,
		Wipe:    func() error { l.add("wipe"); return nil },
		Root:    func() string { return "base" },
		Holders: func() []string { return []string{"robot-2"} },
	}
	for i := range 3 {
		v := named(fmt.Sprintf("voter-%d", i+1))
		all, cast.Voters = append(all, v), append(cast.Voters, v)
	}
	for i := range 4 {
		r := named(fmt.Sprintf("robot-%d", i+1))
		all, cast.Robots = append(all, r), append(cast.Robots, r)
	}
	return l, cast, all
}

func check(t *testing.T, l *log, all []*actor, dead ...string) {
	t.Helper()
	for _, w := range l.wrong {
		t.Error(w)
	}
	for _, a := range all {
		want := "awake"
		if slices.Contains(dead, a.name) {
			want = "dead"
		}
		if a.state != want {
			t.Errorf("%s is %s at the end, want %s", a.name, a.state, want)
		}
	}
}

func TestEverythingIsBrokenAndPutBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(50) {
			l, cast, all := company()
			cast.Root = func() string {
				if l.has("kill base") {
					return "robot-1"
				}
				return "base"
			}
			start := time.Now()
			d := chaos.NewDirector(cast, start)
			d.Run(t.Context(), chaos.Plan(chaos.Config{
				Seed: seed, Begin: time.Second, End: 30 * time.Second, TTL: time.Second,
			}))
			check(t, l, all, "base")
			for _, want := range []string{"kill base", "kill broker", "start broker", "wipe"} {
				if !l.has(want) {
					t.Errorf("seed %d: no %q in %q", seed, want, l.lines)
				}
			}
			if i := slices.Index(l.lines, "wipe"); l.lines[i+1] != "start broker" {
				t.Errorf("seed %d: after the data was lost came %q", seed, l.lines[i+1])
			}
			counts := chaos.Count(d.Acts())
			for _, k := range chaos.Kinds() {
				if counts[k] == 0 {
					t.Errorf("seed %d: no %s", seed, k)
				}
			}
			if calm := chaos.Calm(d.Acts()); d.Err() != nil || calm > 30*time.Second || calm < 10*time.Second {
				t.Errorf("seed %d: calm since %v, %v", seed, calm, d.Err())
			}
		}
	})
}

func TestOnlyWhoeverIsTheRootIsKilledAsTheRoot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, cast, all := company()
		cast.Root = func() string { return "robot-3" }
		kill := []chaos.Fault{{Kind: chaos.KillRoot, Lasts: time.Second}}
		chaos.NewDirector(cast, time.Now()).Run(t.Context(), kill)
		if got := strings.Join(l.lines, ", "); got != "kill robot-3, start robot-3" {
			t.Errorf("%s", got)
		}
		cast.Root = func() string { return "base" }
		chaos.NewDirector(cast, time.Now()).Run(t.Context(), kill)
		if got := l.lines[len(l.lines)-1]; got != "kill base" {
			t.Errorf("%q, want that a base which has a successor stays away", got)
		}
		check(t, l, all, "base")
	})
}

// deadFor names a root that has died until it is replaced by the base.
func deadFor(d time.Duration, start time.Time) func() string {
	return func() string {
		if time.Since(start) < d {
			return "somebody who has died"
		}
		return "base"
	}
}

func TestRootIsAwaited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, cast, all := company()
		start := time.Now()
		cast.Root = deadFor(2*time.Second, start)
		chaos.NewDirector(cast, start).Run(t.Context(), []chaos.Fault{{Kind: chaos.KillRoot, Lasts: time.Second}})
		if !l.has("kill base") {
			t.Errorf("%q", l.lines)
		}
		check(t, l, all, "base")
	})
}

func TestHoldersAreHitFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, cast, all := company()
		d := chaos.NewDirector(cast, time.Now())
		d.Run(t.Context(), []chaos.Fault{{Kind: chaos.KillRobot, Holder: true, Lasts: time.Second, Pick: 3}, {Kind: chaos.StopRobot, Holder: true, Lasts: time.Second, Pick: 3}})
		if !l.has("kill robot-2") && !l.has("stop robot-2") {
			t.Errorf("%q although robot-2 holds", l.lines)
		}
		check(t, l, all)
	})
}

// Who is asleep must wake up, or the run could not end.
func TestInterruptedChaosLeavesNobodyAsleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, cast, all := company()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		chaos.NewDirector(cast, time.Now()).Run(ctx, []chaos.Fault{
			{Kind: chaos.StopRobot, Lasts: time.Hour}, {Kind: chaos.KillRobot, Lasts: time.Hour}, {Kind: chaos.KillBroker, At: time.Minute},
		})
		if l.has("kill broker") || !slices.ContainsFunc(all, func(a *actor) bool { return a.state == "dead" }) {
			t.Errorf("%q", l.lines)
		}
		for _, a := range all {
			if a.state == "asleep" {
				t.Errorf("%s is asleep", a.name)
			}
		}
	})
}

func TestWhatDoesNotSucceedIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cast, all := company()
		all[0].fails = errors.New("no such port")
		d := chaos.NewDirector(cast, time.Now())
		d.Run(t.Context(), []chaos.Fault{{Kind: chaos.KillBroker, Lasts: time.Second}})
		if err := d.Err(); err == nil || !strings.Contains(err.Error(), "broker started again with its data: no such port") {
			t.Errorf("%v", err)
		}
	})
}
