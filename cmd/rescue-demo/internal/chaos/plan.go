// Package chaos breaks a running rescue: it kills and stops the processes that
// take part, by a plan that follows from a seed, and puts them back.
package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	KillRobot  Kind = "killRobot"  // a robot dies, and another process takes its name later
	StopRobot  Kind = "stopRobot"  // a robot sleeps for longer than its session lasts
	KillRoot   Kind = "killRoot"   // whoever is the root dies
	KillVoter  Kind = "killVoter"  // one of those that keep who is the root dies and comes back with its file
	KillBroker Kind = "killBroker" // the broker dies and comes back with its data
	WipeBroker Kind = "wipeBroker" // the broker dies and comes back without its data
)

// Kinds lists all kinds, in the order in which people are told of them.
func Kinds() []Kind { return []Kind{KillRobot, StopRobot, KillRoot, KillVoter, KillBroker, WipeBroker} }

// Fault is one planned fault.
type Fault struct {
	Kind   Kind
	At     time.Duration // from the start of the run
	Lasts  time.Duration // until what it took away is back
	Holder bool          // of robots, preferably one that holds a frequency
	Pick   uint64        // chooses among the candidates
}

// Config says which faults are planned.
type Config struct {
	Seed       uint64
	Begin, End time.Duration // every fault is over by End
	TTL        time.Duration // of sessions
}

const (
	robotEvery = 1500 * time.Millisecond // mean time between faults of robots
	greatEvery = 8 * time.Second         // and between deaths of roots and voters, beyond the first
)

// Plan returns the faults that follow from cfg, in order of time. Every kind is among
// them. Brokers, roots and voters fail one after the other, so that the effects of each
// show and there is always a majority of voters; robots fail at any time, also while the
// others are away.
func Plan(cfg Config) []Fault {
	random := rand.New(rand.NewPCG(cfg.Seed, 0))
	span := cfg.End - cfg.Begin
	great := []Kind{KillBroker, WipeBroker, KillRoot, KillVoter}
	for i := range int(span / greatEvery) {
		great = append(great, []Kind{KillRoot, KillVoter}[i%2])
	}
	random.Shuffle(len(great), func(i, j int) { great[i], great[j] = great[j], great[i] })
	var plan []Fault
	slot := span / time.Duration(len(great))
	for i, kind := range great {
		at := cfg.Begin + time.Duration(i)*slot + between(random, 0, slot/4)
		plan = append(plan, Fault{Kind: kind, At: at, Lasts: between(random, slot/20, slot/4), Pick: random.Uint64()})
	}
	for i := range max(2, int(span/robotEvery)) {
		f := Fault{Kind: KillRobot, Lasts: between(random, cfg.TTL/2, 2*cfg.TTL), Holder: random.IntN(2) == 0, Pick: random.Uint64()}
		f.At = between(random, cfg.Begin, cfg.End-cfg.TTL*5/2)
		if i%2 == 1 {
			f.Kind, f.Lasts = StopRobot, between(random, cfg.TTL*3/2, cfg.TTL*5/2)
		}
		plan = append(plan, f)
	}
	slices.SortFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(max(1, most-least))))
}
